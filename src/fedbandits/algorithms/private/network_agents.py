"""Agents that act on noisy sums of their clique, one phase after the other."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from fedbandits.algorithms.private.clique_sums import CliqueSums
from fedbandits.algorithms.private.synchronising import Synchronising
from fedbandits.contract.arrays import BoolArray, FloatArray, IntArray, State, check_arms, check_feedback, decided
from fedbandits.contract.facts import Place
from fedbandits.contract.messages import Inbox, Message
from fedbandits.contract.population import Ellipsoids, Population
from fedbandits.contract.problem import Problem
from fedbandits.contract.protection import Protection
from fedbandits.contract.streams import Streams
from fedbandits.contract.wire import WireError
from fedbandits.graphs.leaders import clique_of
from fedbandits.linalg import kernels
from fedbandits.models import untold
from fedbandits.models.interleaved import Interleaved
from fedbandits.models.ridge import RidgeModels

if TYPE_CHECKING:
    from fedbandits.algorithms.private.fedlinucb_network import FedLinUCBNetwork


class NetworkAgents(Population):
    """n agents with as many models as there are phases, in rows: those of agent i from i m on, m being their number.

    `models` are what agents act on: `base` the sums of the clique, as they are read, and, where agents use clean data
    of their own, `fresh` those since their last release. `sums` are their own, clean and released; `heard` those of the
    others; `protocol` says who owes what; `told` (n, m), in which phases an agent knows of any release.
    """

    keeps: ClassVar[tuple[str, ...]] = ("models", "sums", "heard", "protocol", "told", "rng")

    def __init__(self, parameters: FedLinUCBNetwork, problem: Problem, place: Place, n: int, rng: Streams) -> None:
        super().__init__(n)
        phases = parameters.phases_at(place)
        cliques = clique_of(place.graph, place.hops)
        self._phases = phases
        self._dim = problem.dim
        self._recent = parameters.own == "recent"
        self._counted = parameters.tells_counts
        sizes, group = np.unique(np.bincount(cliques)[cliques], return_inverse=True)
        self._group = group[rng.identities]
        """(n,) which of the clique's sizes is that of each agent."""
        self._readers = [parameters.reader(problem, place, int(size)) for size in sizes]
        self._moments = parameters.moments(problem, place)
        self._sums = parameters.sums(problem, place, n)
        self._models = RidgeModels(n * phases, problem.dim, parameters.ridge)
        self.sums, self.models = Interleaved(self._sums, phases), Interleaved(self._models, phases)
        self.heard = CliqueSums(place, cliques, rng.identities, phases, problem.dim)
        self.protocol = Synchronising(n, phases)
        self.told = np.zeros((n, phases), dtype=np.bool_)
        self.rng = rng
        if parameters.regularises:  # what is added to sums that were not told yet is known already
            self._refresh(np.arange(n * phases))

    # decisions

    def choose(self, who: IntArray, arms: FloatArray) -> IntArray:
        """The optimistic arm in each agent's phase; at random where it may act on releases alone and knows of none."""
        check_arms(who, arms, self._n, self._dim)
        return untold.choices(self._informed(who), who, arms, self._chosen, self.rng)

    def scores(self, who: IntArray, arms: FloatArray) -> FloatArray | None:
        """The index of every arm, NaN where choices are random; see `Population`."""
        check_arms(who, arms, self._n, self._dim)
        return untold.compared(self._informed(who), self._indices(who, arms))

    def chances(self, who: IntArray, arms: FloatArray) -> FloatArray | None:
        """All the same where choices are random; see `Population`."""
        informed = self._informed(who)
        return None if informed.all() else untold.chances(informed, who, None, self._indices(who, arms))

    def learn(self, who: IntArray, arms: FloatArray, picks: IntArray, rewards: FloatArray) -> None:
        """One observation for each of `who`, in its phase; who owes its sums releases them, who is due asks."""
        check_feedback(who, arms, picks, rewards, self._n, self._dim)
        phase = self.protocol.phase(who)
        rows = self._rows(who, phase)
        observed = self._sums.observed(arms, picks, rewards)
        self._sums.observe(rows, *observed)
        if self._recent:
            self._models.learn(rows, *observed)
        owed = self.protocol.use(who, phase)
        self._release(who[owed], phase[owed])
        rest, theirs = who[~owed], phase[~owed]
        due = self._due(rest, theirs)
        self.protocol.ask(rest[due], theirs[due])

    def _informed(self, who: IntArray) -> BoolArray:
        """(w,) who does not choose at random."""
        if self._recent:
            return np.ones(len(who), dtype=np.bool_)
        return np.asarray(self.told[who, self.protocol.phase(who)])

    def _chosen(self, who: IntArray, arms: FloatArray) -> IntArray:
        rows, models = self._rows(who, self.protocol.phase(who)), self._models
        width = self._widths(rows)[1]
        return decided(who, kernels.pick_optimistic(models.inverse, models.theta, width, rows, kernels.as_lanes(arms)))

    def _indices(self, who: IntArray, arms: FloatArray) -> FloatArray:
        rows, models = self._rows(who, self.protocol.phase(who)), self._models
        width = self._widths(rows)[1]
        return kernels.scores_optimistic(models.inverse, models.theta, width, rows, kernels.as_lanes(arms))

    def _widths(self, rows: IntArray) -> tuple[FloatArray, FloatArray]:
        """(w,) how far theta may be off, and (w,) how much of that agents act on."""
        models, found = self._models, np.empty((2, len(rows)))
        count = models.base.count[rows] + models.fresh.count[rows]
        group = self._group[rows // self._phases]
        for one, reader in enumerate(self._readers):
            of = group == one
            if of.any():
                found[:, of] = reader.widths(models.logdet[rows[of]], count[of])
        return found[0], found[1]

    # synchronisation

    def _due(self, who: IntArray, phase: IntArray) -> BoolArray:
        """(w,) who asks for the next synchronisation of its phase."""
        latest, uses = self.protocol.latest[who, phase], self.protocol.uses[who, phase]
        if self._moments.turns is not None:
            ahead = np.append(self._moments.turns, np.iinfo(np.int64).max)
            return np.asarray(uses >= ahead[np.minimum(latest, len(ahead) - 1)])
        rows = self._rows(who, phase)
        models, fresh = self._models, self._sums.fresh
        slack = np.array([reader.slack for reader in self._readers])[self._group[who]]
        settled = kernels.log_determinants(np.ascontiguousarray(models.base.gram[rows]), models.ridge)
        lifted = models.base.gram[rows] + fresh.gram[rows] + slack[:, None, None] * np.eye(self._dim)
        grown = kernels.log_determinants(lifted, models.ridge) - settled
        reached = fresh.count[rows] * grown >= self._moments.threshold
        return np.asarray(reached & (latest < self._moments.allowed))

    def _release(self, who: IntArray, phase: IntArray) -> None:
        """What is new belongs to what was released, and agents act on that from now on."""
        rows = self._rows(who, phase)
        self._sums.release(rows, self.rng)
        self.told[who, phase] = True
        self._refresh(rows, alone=True)

    def _refresh(self, rows: IntArray, *, alone: bool = False) -> None:
        """Read the sums of the clique anew; `alone`: without what was observed since the last release."""
        if len(rows) == 0:
            return
        gram, moment, count = self.heard.pooled(rows, self._sums.released)
        group = self._group[rows // self._phases]
        for one, reader in enumerate(self._readers):
            of = group == one
            if of.any():
                gram[of], moment[of] = reader.read(gram[of], moment[of])
        self._models.replace(rows, gram, moment, count, alone=alone)

    # messages

    def say(self, learned: IntArray) -> Sequence[Message]:
        """Requests of those who are due, and sums of those who have released them."""
        asking, asked, number = self.protocol.asked()
        telling, told = self.protocol.told()
        sums = self._sums.released.rows(self._rows(telling, told), counted=self._counted)
        return (
            Message("sync", asking, {"phase": asked, "number": number}),
            Message("statistics", telling, {"phase": told, **sums}),
        )

    def hear(self, inbox: Inbox) -> None:
        """Heed requests, and take in sums, of the agent's own clique."""
        kind, arrays = inbox.said.kind, inbox.said.arrays
        if kind not in ("sync", "statistics"):
            super().hear(inbox)
        phase = arrays["phase"]
        if ((phase < 0) | (phase >= self._phases)).any():
            raise WireError(f"{kind!r} is about phases outside 0..{self._phases - 1}: {phase.min()}..{phase.max()}")
        to, row = self.heard.heard(inbox)
        if kind == "sync":
            number = np.minimum(arrays["number"], self._moments.allowed)
            self.protocol.heed(to, phase[row], number[row])
            return
        self.heard.take(inbox, to, row, phase)
        self.told[to, phase[row]] = True
        self._refresh(np.unique(self._rows(to, phase[row])))

    # for those who look on

    def ellipsoids(self) -> Ellipsoids | None:
        """What each agent believes of theta in its next turn; see `Population`."""
        everybody = np.arange(self._n)
        rows = self._rows(everybody, self.protocol.phase(everybody))
        return self._models.theta[rows], self._models.matrices(rows), self._widths(rows)[0]

    @property
    def delta(self) -> float:
        """The delta at which `spent` holds."""
        found = self.protection()
        return 0.0 if found is None else found.delta

    def spent(self) -> FloatArray | None:
        """(n,) epsilon spent so far, by the strict definition; see `Population`."""
        found = self.protection()
        return None if found is None else found.strictly

    def protection(self) -> Protection | None:
        """See `Population`."""
        return self._sums.protection()

    def portrait(self) -> State:
        """Releases made, and epsilon spent on them, where anything is protected."""
        found = self.protection()
        return {} if found is None else {"releases": found.releases, "epsilon": found.spent}

    def _rows(self, who: IntArray, phase: IntArray) -> IntArray:
        """(w,) where the models of the agents' phases are."""
        return np.asarray(who * self._phases + phase)
