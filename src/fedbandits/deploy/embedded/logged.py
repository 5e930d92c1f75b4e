"""The log of an agent: what it decided, for whom, how likely that was, and what came of it.

This is what evaluation needs. The value of another rule pi is estimated from n logged decisions by inverse propensity,

    V(pi) = 1/n sum_i [pi(x_i) = a_i] r_i / p_i,

with the shown arms x_i (`keep_shown`), the arm taken a_i, its reward r_i and propensity p_i.
"""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import numpy as np

from fedbandits.deploy.embedded.decision import named
from fedbandits.deploy.embedded.inputs import FLOATS
from fedbandits.deploy.errors import CorruptError
from fedbandits.deploy.storage.digests import digest
from fedbandits.deploy.storage.entries import ChosenBy
from fedbandits.deploy.storage.journal import Journal

_PAGE = """
SELECT d.entry, d.at, d.tag, d.pick, d.arm, d.features, d.who, d.score, d.propensity, d.explored, d.digest,
       r.entry, r.decision, r.at, r.value, r.digest, g.episode, g.stage, g.digest
FROM decisions d LEFT JOIN rewards r ON r.decision = d.entry LEFT JOIN stages g ON g.decision = d.entry
WHERE d.entry > ? ORDER BY d.entry LIMIT ?
"""
_SHOWN = "SELECT decision, at, names, arms, digest FROM {} WHERE decision = ?"
_LINES = 1000
"""That are read at once."""
COLUMNS = (
    *("decision", "at", "who", "arm", "index", "score", "propensity", "chosen_by", "reward", "rewarded_at"),
    *("episode", "stage"),
)
"""Of a line of the log, in their order; `names` and `shown` follow where they are asked for."""


@dataclass(frozen=True, slots=True)
class Logged:
    """One decision."""

    entry: int
    decision: str
    """Its id."""
    at: datetime
    who: str | None
    """Whom it was about, if that was told."""
    arm: str | int
    """The name of the arm taken; its index if the arms had no names."""
    index: int
    """Its place among the arms that were shown."""
    score: float | None
    """What the algorithm gave it; None where nothing was compared, and of decisions that version 0.1.0 took."""
    propensity: float | None
    """With which probability it was taken; None where that is not known."""
    chosen_by: str
    """"algorithm", "chance" or "others"."""
    reward: float | None
    """None where none came."""
    rewarded_at: datetime | None
    episode: str | None = None
    """The name of the episode that it was part of, of an agent that plans."""
    stage: int | None = None
    """Which decision of that episode it was, from 0."""
    names: list[str] | None = None
    """Of the arms that were shown."""
    shown: list[list[float]] | None = None
    """Their features; None where they were not kept."""

    def plain(self, *, shown: bool) -> dict[str, Any]:
        """A line of the log in terms JSON has."""
        return {name: _plain(getattr(self, name)) for name in COLUMNS + (("names", "shown") if shown else ())}


def page(journal: Journal, dim: int, after: int, *, shown: bool) -> tuple[list[Logged], int | None]:
    """The next decisions in `journal` after an entry, in order, and after which to go on; None: there are no more.

    Whatever is told is held against its checksum.
    """
    rows = journal.connection.execute(_PAGE, (after, _LINES)).fetchall()
    return [_logged(journal, row, dim, shown) for row in rows], rows[-1][0] if len(rows) == _LINES else None


def moment(at: float) -> datetime:
    """Seconds since 1970 as a time."""
    return datetime.fromtimestamp(at, UTC)


def _logged(journal: Journal, row: tuple[Any, ...], dim: int, shown: bool) -> Logged:
    _hold_together(journal, row[:11], f"the decision of entry {row[0]}")
    if row[11] is not None:
        _hold_together(journal, row[11:16], f"the reward of entry {row[11]}")
    if row[16] is not None:
        _hold_together(journal, (row[0], *row[16:19]), f"the stage of entry {row[0]}")
    entry, at, tag, pick, arm, _, who, score, propensity, by = row[:10]
    names, arms = _shown(journal, entry, dim) if shown else (None, None)
    return Logged(
        entry,
        named(entry, tag),
        moment(at),
        who,
        pick if arm is None else arm,
        pick,
        score,
        propensity,
        ChosenBy(by).name.lower(),
        row[14],
        None if row[13] is None else moment(row[13]),
        None if row[16] is None else journal.episode(row[16]).name,
        row[17],
        names,
        arms,
    )


def _shown(journal: Journal, entry: int, dim: int) -> tuple[list[str] | None, list[list[float]] | None]:
    for table in ("shown", "kept"):
        row = journal.connection.execute(_SHOWN.format(table), (entry,)).fetchone()
        if row is not None:
            _hold_together(journal, row, f"what was shown in entry {entry}")
            names = None if row[2] is None else json.loads(row[2])
            return names, np.frombuffer(row[3], FLOATS).reshape(-1, dim).tolist()
    return None, None


def _plain(item: Any) -> Any:
    if isinstance(item, datetime):
        return item.isoformat()
    return None if isinstance(item, float) and not math.isfinite(item) else item


def _hold_together(journal: Journal, row: tuple[Any, ...], what: str) -> None:
    if digest(*row[:-1]) != row[-1]:
        raise CorruptError(f"{journal.path}: {what} is damaged; restore the file from a backup")
