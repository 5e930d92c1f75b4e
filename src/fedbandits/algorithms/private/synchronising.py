"""Who asks for a synchronisation, and who owes one: the broadcast-based protocol of agents without a server."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from fedbandits.contract.arrays import BoolArray, IntArray
from fedbandits.contract.state import Stateful


class Synchronising(Stateful):
    """For n agents with several phases each, as (n, phases) arrays: `uses`, how often a phase was used; `latest`, the
    number of the last synchronisation that the agent knows of; `owing`, whether it still has to tell its sums for it;
    `asking` and `telling`, what it is about to say.

    Synchronisations of a phase are numbered: whoever asks for one asks for the one after the last it knows of, and
    whoever hears of a higher number than it knows owes its sums. A request that comes late, or twice, or from several
    agents at once, is thereby recognised, whatever the network does to it.

    What is owed is told when the phase is used the next time: by then, `hops` rounds later, everybody within reach has
    heard the request (Dubey 2022, section 6.9.3).
    """

    keeps: ClassVar[tuple[str, ...]] = ("uses", "latest", "owing", "asking", "telling")

    def __init__(self, n: int, phases: int) -> None:
        self.uses = np.zeros((n, phases), dtype=np.int64)
        self.latest = np.zeros((n, phases), dtype=np.int64)
        self.owing = np.zeros((n, phases), dtype=np.bool_)
        self.asking = np.zeros((n, phases), dtype=np.bool_)
        self.telling = np.zeros((n, phases), dtype=np.bool_)

    def phase(self, who: IntArray) -> IntArray:
        """(w,) the phase of each agent's next turn."""
        return np.asarray(self.uses[who].sum(axis=1) % self.uses.shape[1])

    def use(self, who: IntArray, phase: IntArray) -> BoolArray:
        """The agents have used their phases; returns (w,) who tells its sums now, since it owes them."""
        self.uses[who, phase] += 1
        owed = self.owing[who, phase]
        self.owing[who, phase] = False
        self.telling[who, phase] |= owed
        return np.asarray(owed)

    def ask(self, who: IntArray, phase: IntArray) -> None:
        """The agents want the next synchronisation of their phases, and owe their own sums for it."""
        self.latest[who, phase] += 1
        self.owing[who, phase] = True
        self.asking[who, phase] = True

    def heed(self, who: IntArray, phase: IntArray, number: IntArray) -> None:
        """Each of `who`, perhaps several times, has heard that its phase is synchronised for the `number`-th time."""
        before = self.latest[who, phase]
        np.maximum.at(self.latest, (who, phase), number)
        newer = number > before
        self.owing[who[newer], phase[newer]] = True

    def asked(self) -> tuple[IntArray, IntArray, IntArray]:
        """Who asks now, for which phase and which synchronisation: at most one phase of each agent."""
        who, phase = _next(self.asking)
        return who, phase, self.latest[who, phase]

    def told(self) -> tuple[IntArray, IntArray]:
        """Who tells its sums now, and of which phase: at most one of each agent."""
        return _next(self.telling)


def _next(flags: BoolArray) -> tuple[IntArray, IntArray]:
    """The first phase of everybody that has one flagged, whose flags are then taken down."""
    who = np.flatnonzero(flags.any(axis=1))
    phase = flags[who].argmax(axis=1)
    flags[who, phase] = False
    return who, phase
