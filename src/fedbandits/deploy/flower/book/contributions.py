"""What each agent has contributed: running sums of everything of it that the server has taken in.

Statistics that add up are handed over in pieces (`adds="increment"`). What they come to, agent by agent, is what bounds
are held against, what influence is measured by, and what has to be taken out of a pool to undo an agent. Fields are
those of the algorithm itself, without what stages do on the way (`meaning`), named `kind.field`.

A piece is added in the transaction that concludes its turn, hence once, whatever is killed. Sums of the conversation
under way can be taken back as a whole (`undo`), to the last bit, until that is completed (`settle`).
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from fedbandits.contract.arrays import Array, State
from fedbandits.contract.state import from_bytes, to_bytes

TABLES = """
CREATE TABLE contributions (identity INTEGER PRIMARY KEY, state BLOB NOT NULL, changed INTEGER NOT NULL, before BLOB);
"""
"""`changed`: whether the conversation under way has changed the row, which was `before` (NULL: there was none)."""
_SUM, _LAST = "sum ", "last "
_NUMBERS = ("observations", "replies", "uncounted", "uploads")


@dataclass(frozen=True, slots=True)
class Handed:
    """What one reply of the given `kind` hands over: increments and totals by field, and how many observations the
    increments are over; None where nobody has counted.
    """

    kind: str
    increments: Mapping[str, Array] = field(default_factory=dict)
    totals: Mapping[str, Array] = field(default_factory=dict)
    observations: float | None = None


@dataclass(frozen=True, slots=True)
class Contribution:
    """All that was taken in from one agent."""

    sums: Mapping[str, Array] = field(default_factory=dict)
    """Of its increments, by `kind.field`."""
    totals: Mapping[str, Array] = field(default_factory=dict)
    """Its last totals, by `kind.field`."""
    observations: float = 0.0
    """Over how many observations its increments are, as far as messages count them."""
    replies: int = 0
    """How many replies handed something over."""
    uncounted: int = 0
    """How many of them had increments and did not say over how many observations."""
    uploads: int = 0
    """How many of them had increments other than zero, since a version of the library that counts them. Of agents that
    release noisy sums, each holds at least one release that no other holds."""

    def plus(self, handed: Handed) -> Contribution:
        """The same agent, after what a reply hands over was taken in."""
        sums, totals = dict(self.sums), dict(self.totals)
        for name, array in handed.increments.items():
            key = f"{handed.kind}.{name}"
            sums[key] = sums[key] + array if key in sums else np.array(array)
        totals |= {f"{handed.kind}.{name}": np.array(array) for name, array in handed.totals.items()}
        uncounted = bool(handed.increments) and handed.observations is None
        counted = self.observations + (handed.observations or 0.0)
        uploads = self.uploads + any(array.any() for array in handed.increments.values())
        return Contribution(sums, totals, counted, self.replies + 1, self.uncounted + uncounted, uploads)


class Contributions:
    """The table of a book over the connection `db`; whoever writes is within a transaction of the book."""

    def __init__(self, db: sqlite3.Connection) -> None:
        self._db = db
        self._last: dict[int, tuple[bytes, Contribution]] = {}
        """What was read last, beside its bytes: reading those anew for every reply would take most of its time."""

    def of(self, identity: int) -> Contribution:
        """What an agent has contributed, the conversation under way included."""
        row = self._db.execute("SELECT state FROM contributions WHERE identity = ?", (identity,)).fetchone()
        if row is None:
            return Contribution()
        content, held = self._last.get(identity, (b"", Contribution()))
        if content != row[0]:
            held = _read(row[0])
            self._last[identity] = (row[0], held)
        return held

    def all(self) -> dict[int, Contribution]:
        """What everybody has contributed of whom anything was taken in, by identity."""
        rows = self._db.execute("SELECT identity, state FROM contributions ORDER BY identity").fetchall()
        return {identity: _read(state) for identity, state in rows}

    def settled(self) -> dict[int, Contribution]:
        """The same, without the conversation under way."""
        rows = self._db.execute(
            "SELECT identity, CASE changed WHEN 1 THEN before ELSE state END FROM contributions ORDER BY identity"
        ).fetchall()
        return {identity: _read(state) for identity, state in rows if state is not None}

    def add(self, handed: Mapping[int, Handed]) -> None:
        """The conversation under way has taken in what these agents handed over; replies without any change nothing."""
        for identity, reply in handed.items():
            if not reply.increments and not reply.totals and reply.observations is None:
                continue
            held = self.of(identity).plus(reply)
            state = to_bytes(_state(held))
            self._last[identity] = (state, held)
            self._db.execute(
                "INSERT INTO contributions VALUES (?, ?, 1, NULL) ON CONFLICT (identity) DO UPDATE SET"
                " before = CASE changed WHEN 1 THEN before ELSE state END, changed = 1, state = excluded.state",
                (identity, state),
            )

    def settle(self) -> None:
        """The conversation under way is completed: what it brought stays."""
        self._db.execute("UPDATE contributions SET changed = 0, before = NULL WHERE changed = 1")

    def undo(self) -> None:
        """Be as before the conversation under way."""
        self._db.execute("DELETE FROM contributions WHERE changed = 1 AND before IS NULL")
        self._db.execute("UPDATE contributions SET state = before, changed = 0, before = NULL WHERE changed = 1")

    def forget_totals(self, identity: int) -> None:
        """An agent begins anew: its next totals may be smaller than its last ones. Its increments stay in the pool."""
        held = self.of(identity)
        if held.totals:
            state = to_bytes(_state(replace(held, totals={})))
            self._db.execute("UPDATE contributions SET state = ? WHERE identity = ?", (state, identity))

    def rewrite(self, change: Callable[[Array], Array]) -> None:
        """Let every sum and total be what `change` makes of it; no conversation is under way."""
        for identity, held in self.all().items():
            sums = {name: change(array) for name, array in held.sums.items()}
            totals = {name: change(array) for name, array in held.totals.items()}
            state = to_bytes(_state(replace(held, sums=sums, totals=totals)))
            self._db.execute("UPDATE contributions SET state = ? WHERE identity = ?", (state, identity))

    def remove(self, identity: int) -> None:
        """An agent's contribution is not in the pool any more."""
        self._db.execute("DELETE FROM contributions WHERE identity = ?", (identity,))


def _state(held: Contribution) -> State:
    named: State = {_SUM + key: array for key, array in held.sums.items()}
    named |= {_LAST + key: array for key, array in held.totals.items()}
    return named | {name: np.array(getattr(held, name)) for name in _NUMBERS}


def _read(content: bytes) -> Contribution:
    state = from_bytes(content)
    sums = {key.removeprefix(_SUM): array for key, array in state.items() if key.startswith(_SUM)}
    totals = {key.removeprefix(_LAST): array for key, array in state.items() if key.startswith(_LAST)}
    counted = {name: state[name].item() for name in _NUMBERS if name in state}  # earlier versions count less
    return Contribution(sums, totals, **counted)
