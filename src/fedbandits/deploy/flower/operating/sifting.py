"""What operators do with conversations in quarantine: list, look into, take up again, or give back for good.

Nothing here computes with what was sent beyond its norms, and nothing raises on it, whatever it is.
"""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np

from fedbandits.contract.arrays import Array
from fedbandits.contract.errors import ConfigError
from fedbandits.contract.wire import Wire, WireError
from fedbandits.deploy.flower.book.book import Book
from fedbandits.deploy.flower.book.books import book_in
from fedbandits.deploy.flower.book.names import SETTINGS
from fedbandits.deploy.flower.book.quarantine import Entry, Spoken
from fedbandits.deploy.flower.trust.inspection import Inspector, RejectedError
from fedbandits.deploy.flower.trust.past import Pasts, Trust
from fedbandits.deploy.settings import Settings, stored
from fedbandits.deploy.text import shown


def entries(directory: Path) -> list[dict[str, Any]]:
    """All entries, oldest first."""
    with book_in(directory) as book:
        suspended = {kept.id for kept in book.quarantine.suspended().values()}
        return [_told(entry, leaves_out=entry.id in suspended) for entry in book.quarantine.entries()]


def entry(directory: Path, number: int) -> dict[str, Any]:
    """One entry, with what everybody said."""
    with book_in(directory) as book:
        found = _found(book, number)
        suspended = [who for who, kept in book.quarantine.suspended().items() if kept.id == number]
        replies = [_reply(said) for said in book.quarantine.spoken(number)]
        return _told(found, leaves_out=bool(suspended)) | {"left_out": suspended, "replies": replies}


def drop(directory: Path, number: int) -> str:
    """Give what is held back for good, and let whoever was left out take part again; what was done, in words."""
    with book_in(directory) as book, book.writing():
        found = _found(book, number)
        held = _held(book, found)
        for said in held:
            book.verdicts.decline({said.identity: (said.letter.conversation, said.letter.turn)})
        book.quarantine.decide(number, "dropped")
    given = f"; agent {_who(held)} gets back what it handed over" if held else ""
    return f"{number} is dropped{given}"


def retry(directory: Path, number: int) -> str:
    """Take what is held up again, as the answer to the next question of its kind; what was done, in words.

    It is looked at anew, by what this version knows of honest replies.
    """
    settings = _settings(directory)
    with book_in(directory) as book, book.writing():
        found = _found(book, number)
        if found.state != "held":
            raise ConfigError(
                f"{number}: what was handed over was given back, and is handed over again by itself ({found.state})"
            )
        held = _held(book, found)
        inspector = Inspector(settings.algorithm, settings.problem, settings.wire)
        pasts = Pasts(book, settings.horizon, Trust().pace)
        if len({said.identity for said in held}) < len(held):
            raise ConfigError(f"{number}: it was handed over in several turns; drop it, and it comes again")
        for said in held:
            try:
                inspector.read(said.reply, said.letter.content, pasts.of(said.identity))
            except RejectedError as error:
                raise ConfigError(f"{number}: agent {said.identity}: {error}; drop it") from None
            if not book.owe(said.identity, said.letter, said.reply):
                raise ConfigError(f"{number}: agent {said.identity} owes another answer; retry when it was taken in")
        book.quarantine.decide(number, "retried")
    what = f"what agent {_who(held)} handed over is taken up in the next conversation" if held else "nothing is held"
    return f"{number}: {what}"


def _found(book: Book, number: int) -> Entry:
    found = book.quarantine.entry(number)
    if found is None:
        raise ConfigError(f"there is no {number} in quarantine; see: federation quarantine list")
    return found


def _held(book: Book, found: Entry) -> list[Spoken]:
    """The replies of an entry whose fate is open."""
    if found.state != "held":
        return []
    return [
        said
        for said in book.quarantine.spoken(found.id)
        if said.guilty and (said.letter.conversation, said.letter.turn) in book.verdicts.held(said.identity)
    ]


def _settings(directory: Path) -> Settings:
    path = directory / SETTINGS
    if not path.is_file():
        raise ConfigError(f"{directory} holds no {SETTINGS}, which says what agents hand over")
    return stored(path.read_text(), {})


def _who(held: list[Spoken]) -> str:
    return ", ".join(map(str, sorted({said.identity for said in held})))


def _told(found: Entry, *, leaves_out: bool) -> dict[str, Any]:
    return {
        "id": found.id,
        "at": datetime.fromtimestamp(found.at, UTC).isoformat(timespec="seconds"),
        "state": "suspended" if leaves_out else found.state,
        "conversation": shown(found.conversation),
        "turn": found.turn,
        "guilty": list(found.guilty),
        "sure": found.sure,
        "times": found.times,
        "error": found.error,
    }


def _reply(said: Spoken) -> dict[str, Any]:
    told: dict[str, Any] = {
        "agent": said.identity,
        "guilty": said.guilty,
        "turn": said.turn,
        "answers": f"turn {said.letter.turn} of {shown(said.letter.conversation)}",
        "bytes": len(said.reply),
    }
    try:
        kind, arrays = Wire.decode(said.reply)
    except WireError as error:
        return told | {"unreadable": shown(error)}
    return told | {"kind": shown(kind), "fields": {shown(name): _numbers(array) for name, array in arrays.items()}}


def _numbers(array: Array) -> dict[str, Any]:
    """What can be said of an array without showing it."""
    with np.errstate(all="ignore"):
        values = array.astype(np.float64).ravel()
        finite = values[np.isfinite(values)]
        largest = float(np.abs(finite).max(initial=0.0))
        norm = largest * float(np.linalg.norm(finite / largest)) if largest else 0.0
    return {"shape": list(array.shape), "norm": norm, "largest": largest, "not_finite": int(values.size - finite.size)}
