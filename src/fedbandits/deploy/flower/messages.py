"""What server and nodes say to each other, as Flower's messages; what the other side writes is read without trust."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Mapping
from dataclasses import astuple

from flwr.app import ConfigRecord, Message, RecordDict

from fedbandits.deploy.embedded.acknowledgements import Verdict
from fedbandits.deploy.flower.post import Answer, Letter, Presence
from fedbandits.deploy.text import shown

RING, ASK = "query.ring", "query.ask"
"""Flower's types of our two messages."""
RECORD = "post"
"""The name of the only record in a message."""
CLOCK, OFFSET = "clock", "clock-offset"
"""What time it is where an answer is written, and what the server makes of it."""
VERDICTS, UNACKNOWLEDGED = "verdicts", "unacknowledged"
"""What became of earlier answers, and of which an agent does not know it: JSON, since records hold no lists of lists.
Earlier versions send neither."""
_MOST = 2**62
"""The largest number that is taken seriously."""
_MOST_CHARACTERS, _LONGEST = 100, 10_000
"""Of the name of a conversation, and of all that an agent says of its answers."""


def content(fields: Mapping[str, int | float | str | bytes | bool]) -> RecordDict:
    """The content of a message: one record."""
    return RecordDict({RECORD: ConfigRecord(dict(fields))})


def carrying(letter: Letter) -> RecordDict:
    """The content of a message that brings a letter."""
    verdicts = [] if letter.verdicts is None else [astuple(verdict) for verdict in letter.verdicts]
    return content(
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
    conversation, turn, written = told.get("conversation"), told.get("turn"), told.get("letter")
    if not (isinstance(conversation, str) and isinstance(turn, int) and isinstance(written, bytes)):
        raise ValueError("the message holds no letter")
    return Letter(conversation, turn, written, verdicts_in(told.get(VERDICTS)))


def answering(message: Message, answer: Answer) -> Message:
    """The reply that carries `answer`."""
    fields: dict[str, int | str | bytes | bool] = {"letters": answer.letters}
    if answer.refused is not None:
        fields["refused"] = answer.refused
    if answer.content is not None:
        fields["letter"] = answer.content
    return Message(content(fields), reply_to=message)


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
    return Message(content(told), reply_to=message)


def answered(told: ConfigRecord) -> Answer:
    """The answer in a reply; whatever is not one counts as refused."""
    written, refused = told.get("letter"), told.get("refused")
    if refused is not None:
        return Answer(refused=shown(refused))
    if written is not None and not isinstance(written, bytes):
        return Answer(refused="the reply holds no letter")
    return Answer(written, letters=number_in(told, "letters"))


def number_in(told: ConfigRecord, name: str) -> int:
    """A number that a node says; 0 if it is none."""
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
