"""The post over Flower: one Flower message per agent and letter, replies pulled until time is up."""

from __future__ import annotations

import hashlib
import logging
import math
import time
from collections.abc import Iterable, Mapping
from typing import cast

import httpx
from flwr.app import ConfigRecord, Message, RecordDict
from flwr.serverapp import Grid
from flwr.supercore.run import RunNotRunningException
from flwr.superlink.grid import HttpGrid

from fedbandits.deploy.flower.book.book import Book
from fedbandits.deploy.flower.book.clocks import TOLERATED_SECONDS, in_words, offset
from fedbandits.deploy.flower.messages import (
    ASK,
    CLOCK,
    OFFSET,
    RECORD,
    RING,
    UNACKNOWLEDGED,
    answered,
    carrying,
    content,
    number_in,
    unacknowledged_in,
)
from fedbandits.deploy.flower.post import Answer, Letter, Presence
from fedbandits.deploy.text import shown

log = logging.getLogger(__name__)

_PULL_SECONDS = 0.1
_GRACE_SECONDS = 10.0
"""How much longer than needed Flower keeps a message for a node that does not come for it."""
_STEADY_SECONDS = 1.0
"""By how much an offset may change before it is written down again."""
_NOBODY_SECONDS = 1.0
"""How long to wait when there is nobody to ask."""


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
        told_to = {node: content({OFFSET: self._offsets[node]} if node in self._offsets else {}) for node in keys}
        replies = self._exchange(told_to, RING, seconds)
        received = time.time()
        present: dict[int, Presence] = {}
        for node, told in replies.items():
            identity = self._identified(node, keys[node], told)
            if identity is not None:
                self._nodes[identity] = node
                present[identity] = Presence(
                    bool(told.get("calling")), number_in(told, "letters"), unacknowledged_in(told.get(UNACKNOWLEDGED))
                )
                self._compare_clocks(identity, node, told.get(CLOCK), sent, received)
        return present

    def ask(self, letters: Mapping[int, Letter], seconds: float) -> Mapping[int, Answer]:
        """Bring each identity its letter. Whoever did not answer the last time is rung for first."""
        if letters.keys() - self._nodes.keys():
            self.ring(seconds)
        whose = {self._nodes[who]: who for who in letters if who in self._nodes}
        replies = self._exchange({node: carrying(letters[who]) for node, who in whose.items()}, ASK, seconds)
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
        elif why := self._book.admit(identity, key, number_in(told, "letters")):
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
