"""What teams have done: every episode of a team, as each of its members knows it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

import numpy as np

from fedbandits.contract.arrays import Array, BoolArray, IntArray, State
from fedbandits.contract.state import Stateful
from fedbandits.models.views import Views, grown

WAITS, USED, LOST = 0, 1, 2
"""What has become of an episode: rewards of it are still missing, it is planned with, it is given up."""
_FEW = 4
"""Episodes there is room for at first."""


class JointHistory(Stateful):
    """For n agents, the episodes of their teams, of at most `members` m each.

    In stage h of episode e agent i saw its team's blocks `seen` (n, E, H, m), which are numbers of sets in `blocks`,
    the team did `did` (n, E, H, m), and got `reward` (n, E, H, m), as far as members have told, `told` (n, E, m).
    `stages` (n, E) is how many stages there were, `fate` (n, E) what has become of it. Of agent i `count[i]` episodes
    are over; the next one is running.
    """

    _GROWING: ClassVar[tuple[str, ...]] = ("seen", "did", "reward", "told", "stages", "fate")
    keeps: ClassVar[tuple[str, ...]] = ("blocks", *_GROWING, "count")
    resizes: ClassVar[frozenset[str]] = frozenset(_GROWING)

    def __init__(self, n: int, length: int, members: int, block: int) -> None:
        self.blocks = Views(n, block)
        self.seen = np.zeros((n, _FEW, length, members), dtype=np.int64)
        self.did = np.zeros((n, _FEW, length, members), dtype=np.int64)
        self.reward = np.zeros((n, _FEW, length, members))
        self.told = np.zeros((n, _FEW, members), dtype=np.bool_)
        self.stages = np.zeros((n, _FEW), dtype=np.int64)
        self.fate = np.zeros((n, _FEW), dtype=np.int8)
        self.count = np.zeros(n, dtype=np.int64)

    def stage(self, who: IntArray) -> IntArray:
        """(w,) how many stages of its running episode each of `who` has had."""
        return np.asarray(self.stages[who, self.count[who]])

    def close(self, who: IntArray) -> None:
        """The running episodes of `who` are over."""
        self.count[who] += 1
        needed = int(self.count[who].max(initial=0)) + 1
        if needed > self.stages.shape[1]:
            for name in self._GROWING:
                setattr(self, name, grown(getattr(self, name), needed))

    def complete(self, agent: int, members: int) -> BoolArray:
        """(E,) which episodes of `agent` still wait although all of its `members` have told what they got."""
        over = slice(0, int(self.count[agent]))
        return np.asarray((self.fate[agent, over] == WAITS) & self.told[agent, over, :members].all(axis=1))

    def _arrays(self, prefix: str = "") -> State:
        """Without room that nobody uses, so that a snapshot says nothing of how it was reached."""
        rows = int(self.count.max()) + 1
        own: State = {prefix + name: getattr(self, name)[:, :rows] for name in self._GROWING}
        return self.blocks._arrays(f"{prefix}blocks.") | own | {f"{prefix}count": self.count}

    def _share(self, agent: int, prefix: str) -> State:
        one, rows = slice(agent, agent + 1), int(self.count[agent]) + 1
        own: State = {prefix + name: getattr(self, name)[one, :rows] for name in self._GROWING}
        return self.blocks._share(agent, f"{prefix}blocks.") | own | {f"{prefix}count": self.count[one]}

    def _check_grown(self, state: Mapping[str, Array], prefix: str) -> None:
        """Only the room may differ, and has to hold what there is."""
        super()._check_grown(state, prefix)
        rows = int(state[f"{prefix}count"].max(initial=0)) + 1
        for name in self._GROWING:
            held, given = getattr(self, name), state[prefix + name].shape
            needed = (len(held), rows, *held.shape[2:])
            if given != needed:
                raise ValueError(f"the snapshot's {prefix}{name} has shape {given}, this needs {needed}")
