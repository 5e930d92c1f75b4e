"""The post over Flower: one Flower message per agent and letter, replies pulled until time is up."""

from __future__ import annotations

import hashlib
import json
import logging
import math
import time
from collections.abc import Iterable, Mapping
from dataclasses import astuple
from typing import cast

import httpx
from flwr.app import ConfigRecord, Message, RecordDict
from flwr.serverapp import Grid
from flwr.supercore.run import RunNotRunningException
from flwr.superlink.grid import HttpGrid

from fedbandits.deploy.acknowledgements import Verdict
from fedbandits.deploy.flower.book import Book
from fedbandits.deploy.flower.clocks import TOLERATED_SECONDS, in_words, offset
from fedbandits.deploy.flower.post import Answer, Letter, Presence
from fedbandits.deploy.text import shown

log = logging.getLogger(__name__)

RING, ASK = "query.ring", "query.ask"
"""Flower's types of our two messages."""
RECORD = "post"
"""The name of the only record in a message."""
CLOCK, OFFSET = "clock", "clock-offset"
"""What time it is where an answer is written, and what the server makes of it."""
VERDICTS, UNACKNOWLEDGED = "verdicts", "unacknowledged"
"""What became of earlier answers, and of which an agent does not know it: JSON, since records hold no lists of lists.
Earlier versions send neither."""
_PULL_SECONDS = 0.1
_GRACE_SECONDS = 10.0
"""How much longer than needed Flower keeps a message for a node that does not come for it."""
_MOST = 2**62
"""The largest number that is taken seriously."""
_STEADY_SECONDS = 1.0
"""By how much an offset may change before it is written down again."""
_NOBODY_SECONDS = 1.0
"""How long to wait when there is nobody to ask."""
_MOST_CHARACTERS, _LONGEST = 100, 10_000
"""Of the name of a conversation, and of all that an agent says of its answers."""


class FlowerPost:
    """Knows nodes by their Flower ids and agents by their identities.

    A node says who it is when it is rung for. The first key to speak for an identity keeps it, across restarts, until
    the operator releases it; another that claims the same identity, or has other settings, is refused and named. So is
    an agent that has answered fewer letters than the book knows of, as after its file was restored from a backup: it
    would hand over a second time what it no longer knows to have handed over.
    """

    def __init__(self, grid: Grid, book: Book, agents: int, fingerprint: str) -> None:
        self._grid = grid
        self._book = book
        self._agents = agents
        self._fingerprint = fingerprint
        self._refused: dict[int, str] = {}
        self._nodes: dict[int, int] = {}
        self._apart = False
        """Whether replies are pulled one by one, since one of them could not be read."""
        self._offsets: dict[int, float] = {}
        """By how many seconds the clocks of nodes are ahead, by node, as far as that is certain."""

    def ring(self, seconds: float) -> Mapping[int, Presence]:
        """Everybody who answers within `seconds`."""
        # `get_nodes` tells keys, too; it is not part of Flower's abstract grid
        keys = {
            node.node_id: hashlib.sha256(node.public_key).hexdigest() for node in cast(HttpGrid, self._grid).get_nodes()
        }
        sent = time.time()
        told_to = {node: _content({OFFSET: self._offsets[node]} if node in self._offsets else {}) for node in keys}
        replies = self._exchange(told_to, RING, seconds)
        received = time.time()
        present: dict[int, Presence] = {}
        for node, told in replies.items():
            identity = self._identified(node, keys[node], told)
            if identity is not None:
                self._nodes[identity] = node
                present[identity] = Presence(
                    bool(told.get("calling")), _number(told, "letters"), unacknowledged_in(told.get(UNACKNOWLEDGED))
                )
                self._compare_clocks(identity, node, told.get(CLOCK), sent, received)
        return present

    def ask(self, letters: Mapping[int, Letter], seconds: float) -> Mapping[int, Answer]:
        """Bring each identity its letter. Whoever did not answer the last time is rung for first."""
        if letters.keys() - self._nodes.keys():
            self.ring(seconds)
        whose = {self._nodes[who]: who for who in letters if who in self._nodes}
        replies = self._exchange({node: _letter(letters[who]) for node, who in whose.items()}, ASK, seconds)
        for who in letters.keys() - {whose[node] for node in replies}:
            # it may be back under another node id; do not pile up letters for one that is gone
            self._nodes.pop(who, None)
        if not whose:
            time.sleep(min(seconds, _NOBODY_SECONDS))
        return {whose[node]: answered(told) for node, told in replies.items()}

    def _exchange(self, contents: Mapping[int, RecordDict], kind: str, seconds: float) -> dict[int, ConfigRecord]:
        life = 2 * seconds + _GRACE_SECONDS
        messages = [Message(content, node, kind, ttl=life) for node, content in contents.items()]
        numbers = self._grid.push_messages(messages) if messages else ()
        # a message that the SuperLink did not take has no number
        sent = {number: node for number, node in zip(numbers, contents, strict=True) if number}
        until = time.monotonic() + seconds
        replies: dict[int, ConfigRecord] = {}
        while sent:
            for message in self._pulled(sent):
                node = sent.pop(message.metadata.reply_to_message_id)
                if message.has_error():
                    log.warning("node %d: %s", node, shown(message.error.reason))
                elif RECORD in message.content.config_records:
                    replies[node] = message.content.config_records[RECORD]
            if not sent or time.monotonic() >= until:
                break
            time.sleep(_PULL_SECONDS)
        return replies

    def _pulled(self, sent: Mapping[str, int]) -> Iterable[Message]:
        """Replies that have come. One that cannot be read is its sender's fault alone: what was pulled with it is lost
        (the server asks again), and from then on each is pulled by itself.
        """
        found: list[Message] = []
        for numbers in [[number] for number in sent] if self._apart else [list(sent)]:
            try:
                found += self._grid.pull_messages(numbers)
            except (httpx.HTTPError, OSError, RunNotRunningException):
                raise
            except Exception as error:  # whatever Flower makes of bytes that a node has made up
                whose = f"node {sent[numbers[0]]}: its reply" if len(numbers) == 1 else "a node's reply"
                log.warning("%s cannot be read: %s", whose, shown(f"{type(error).__name__}: {error}"))
                self._apart = True
        return [message for message in found if message.metadata.reply_to_message_id in sent]

    def _compare_clocks(self, identity: int, node: int, clock: object, sent: float, received: float) -> None:
        if not isinstance(clock, float) or not math.isfinite(clock):
            return  # an earlier version does not say what time it is
        now, before = offset(clock, sent, received), self._offsets.get(node)
        self._offsets[node] = now
        if before is None or abs(now - before) > _STEADY_SECONDS:
            self._book.compare_clocks({identity: now})
            if abs(now) > TOLERATED_SECONDS:
                log.warning("agent %d: its clock %s", identity, in_words(now))

    def _identified(self, node: int, key: str, told: ConfigRecord) -> int | None:
        identity = told.get("identity")
        if not isinstance(identity, int) or not 0 <= identity < self._agents:
            self._refuse(node, None, f"claims to be agent {shown(repr(identity), 40)} of {self._agents}")
        elif told.get("fingerprint") != self._fingerprint:
            self._refuse(node, identity, f"is agent {identity} with other settings than the server")
        elif why := self._book.admit(identity, key, _number(told, "letters")):
            self._refuse(node, identity, f"claims to be agent {identity}{why}")
        else:
            self._refused.pop(node, None)
            return identity
        return None

    def _refuse(self, node: int, identity: int | None, why: str) -> None:
        if self._refused.get(node) != why:  # once is enough
            self._refused[node] = why
            log.warning("node %d %s: refused", node, why)
            self._book.reject(identity, None, f"node {node} {why}", "node")


def _content(fields: Mapping[str, int | float | str | bytes | bool]) -> RecordDict:
    return RecordDict({RECORD: ConfigRecord(dict(fields))})


def _letter(letter: Letter) -> RecordDict:
    verdicts = [] if letter.verdicts is None else [astuple(verdict) for verdict in letter.verdicts]
    return _content(
        {
            "conversation": letter.conversation,
            "turn": letter.turn,
            "letter": letter.content,
            VERDICTS: json.dumps(verdicts),
        }
    )


def read_letter(message: Message) -> Letter:
    """The letter in a message of type `ASK`; raises `ValueError` if there is none."""
    told = message.content.config_records.get(RECORD, ConfigRecord())
    conversation, turn, content = told.get("conversation"), told.get("turn"), told.get("letter")
    if not (isinstance(conversation, str) and isinstance(turn, int) and isinstance(content, bytes)):
        raise ValueError("the message holds no letter")
    return Letter(conversation, turn, content, verdicts_in(told.get(VERDICTS)))


def answering(message: Message, answer: Answer) -> Message:
    """The reply that carries `answer`."""
    fields: dict[str, int | str | bytes | bool] = {"letters": answer.letters}
    if answer.refused is not None:
        fields["refused"] = answer.refused
    if answer.content is not None:
        fields["letter"] = answer.content
    return Message(_content(fields), reply_to=message)


def clock_told(message: Message) -> float | None:
    """By how many seconds the server takes the clock of this machine to be ahead; None if it does not say."""
    told = message.content.config_records.get(RECORD, ConfigRecord()).get(OFFSET)
    return told if isinstance(told, float) and math.isfinite(told) else None


def presenting(message: Message, identity: int, fingerprint: str, presence: Presence) -> Message:
    """The reply that says who an agent is and whether it calls."""
    told: dict[str, int | float | str | bytes | bool] = {
        "identity": identity,
        "fingerprint": fingerprint,
        CLOCK: time.time(),
        "calling": presence.calling,
        "letters": presence.letters,
        UNACKNOWLEDGED: json.dumps(presence.unacknowledged or ()),
    }
    return Message(_content(told), reply_to=message)


def answered(told: ConfigRecord) -> Answer:
    """The answer in a reply; whatever is not one counts as refused."""
    content, refused = told.get("letter"), told.get("refused")
    if refused is not None:
        return Answer(refused=shown(refused))
    if content is not None and not isinstance(content, bytes):
        return Answer(refused="the reply holds no letter")
    return Answer(content, letters=_number(told, "letters"))


def _number(told: ConfigRecord, name: str) -> int:
    value = told.get(name)
    return value if isinstance(value, int) and 0 <= value <= _MOST else 0


def verdicts_in(told: object) -> tuple[Verdict, ...] | None:
    """The verdicts that came with a letter; None if none can have come. Raises `ValueError` for what is none."""
    if told is None:
        return None
    try:
        return tuple(Verdict(str(name), _whole(turn), bool(accepted)) for name, turn, accepted in json.loads(str(told)))
    except (TypeError, ValueError, RecursionError):
        raise ValueError("the letter's verdicts cannot be read") from None


def unacknowledged_in(told: object) -> tuple[tuple[str, int], ...] | None:
    """What an agent says of its answers; None if it does not, or not in a way that can be believed."""
    if not isinstance(told, str) or len(told) > _LONGEST:
        return None
    try:
        return tuple((_name(name), _whole(turn)) for name, turn in json.loads(told))
    except (TypeError, ValueError, RecursionError):
        return None


def _name(value: object) -> str:
    if not isinstance(value, str) or not (value.isascii() and value.isprintable()) or len(value) > _MOST_CHARACTERS:
        raise ValueError("no name of a conversation")
    return value


def _whole(value: object) -> int:
    if not isinstance(value, int) or not 0 <= value <= _MOST:
        raise ValueError("no number of a turn")
    return value
