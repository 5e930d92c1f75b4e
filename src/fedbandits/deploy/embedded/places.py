"""Arms that are known by name alone: each name has a place, which is a unit vector to the algorithm.

Names of a federation mean the same to all its agents, so they are declared (`arm_names`, part of what a server asks its
agents to agree in). An agent that talks to nobody gives places to names as they come, up to its number of dimensions.
A retired name is not shown again. Its place is free for another one only if what was learned of it was dropped.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from fedbandits.contract.errors import hint
from fedbandits.deploy.embedded.inputs import FLOATS, Menu
from fedbandits.deploy.errors import CorruptError, InputError
from fedbandits.deploy.settings import Settings
from fedbandits.deploy.storage.digests import digest
from fedbandits.deploy.storage.journal import Journal


class Places:
    """The places in `journal`, within a transaction of whoever calls."""

    def __init__(self, journal: Journal, settings: Settings) -> None:
        self._journal = journal
        self._settings = settings
        self._db = journal.connection
        self._declared = None if settings.arm_names is None else {n: k for k, n in enumerate(settings.arm_names)}

    def menu(self, names: Iterable[str]) -> Menu:
        """The unit vectors of `names`, in the order of their places; new names are given one."""
        places = sorted((self._place(name), name) for name in names)
        shown = np.zeros((len(places), self._settings.dim), dtype=FLOATS)
        shown[np.arange(len(places)), [place for place, _ in places]] = 1.0
        return Menu(shown, [name for _, name in places])

    def retire(self, name: str, *, free: bool) -> int:
        """Show `name` no more; its place, which is `free` for another name if it was not declared."""
        place, retired = self._find(name) or (None, False)
        if place is None:
            raise InputError(f"no arm is called {name!r}; {hint(name, list(self.names()))}")
        if free and self._declared is not None:
            raise InputError(f"{name!r} is declared in arm_names, which all agents of a federation agree in")
        if free:
            self._db.execute("DELETE FROM places WHERE place = ?", (place,))
        elif retired:
            raise InputError(f"the arm {name!r} is retired already")
        else:
            row = (place, name, 1)
            self._db.execute("INSERT OR REPLACE INTO places VALUES (?, ?, ?, ?)", (*row, digest(*row)))
        return place

    def names(self) -> dict[str, bool]:
        """Names that have a place, and whether they are retired."""
        held = {name: bool(retired) for _, name, retired in self._rows()}
        return dict.fromkeys(self._declared or (), False) | held

    def _place(self, name: str) -> int:
        place, retired = self._find(name) or (None, False)
        if retired:
            raise InputError(f"the arm {name!r} was retired, and is not shown again")
        if place is not None:
            return place
        if self._declared is not None:
            raise InputError(f"there is no arm {name!r}; {hint(name, list(self._declared))}")
        if self._settings.algorithm.about.says:
            raise InputError(
                f"the arm {name!r} has no place: names mean the same on all agents of a federation only if they are "
                "declared, with arm_names=[...] when the agent is made"
            )
        return self._give_place(name)

    def _give_place(self, name: str) -> int:
        dim = self._settings.dim
        free = sorted(set(range(dim)) - {place for place, _, _ in self._rows()})
        if not free:
            retired = sum(self.names().values())
            raise InputError(
                f"there is no place left for the arm {name!r}: all {dim} are taken, {retired} of them by retired arms; "
                "drop what was learned of one (fedbandits agent retire DB NAME --drop), or make an agent with more arms"
            )
        row = (free[0], name, 0)
        self._db.execute("INSERT INTO places VALUES (?, ?, ?, ?)", (*row, digest(*row)))
        return free[0]

    def _find(self, name: str) -> tuple[int, bool] | None:
        row = self._db.execute("SELECT place, name, retired, digest FROM places WHERE name = ?", (name,)).fetchone()
        if row is not None:
            place, _, retired = self._whole(row)
            return place, bool(retired)
        return None if self._declared is None or name not in self._declared else (self._declared[name], False)

    def _rows(self) -> list[tuple[int, str, int]]:
        rows = self._db.execute("SELECT place, name, retired, digest FROM places ORDER BY place").fetchall()
        return [self._whole(row) for row in rows]

    def _whole(self, row: tuple[int, str, int, int]) -> tuple[int, str, int]:
        if digest(*row[:3]) != row[3]:
            raise CorruptError(f"{self._journal.path}: the place of an arm is damaged; restore the file from a backup")
        return row[:3]


def unit(place: int, settings: Settings) -> bytes:
    """The features of the arm at `place`, as they are written down."""
    row = np.zeros(settings.dim, dtype=FLOATS)
    row[place] = 1.0
    return row.tobytes()
