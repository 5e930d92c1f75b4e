"""The agents' end of a noise stage for networks that everybody trains: nothing is handed over, everything is asked for.

An update asks `rounds` times for the slope of a loss over all that an agent has observed, and then once for statistics
z z^T and y z of features that have just been learned. One observation is in every answer after it, each answer has
fresh noise, and they compose one by one: with U updates, slopes of sensitivity Delta_s and noise sigma_s, and
statistics of sensitivity Delta_z and noise sigma_z, all that leaves an agent is one Gaussian mechanism with

    mu^2 = U rounds (Delta_s / sigma_s)^2 + U (Delta_z / sigma_z)^2,

exactly, however questions depend on earlier answers (Dong, Roth & Su 2022, corollary 3.3). The stage's `share` of it
goes to slopes, the rest to statistics. Observations are cut down by the algorithm (`facts.Trained`): what is asked
about moves, and bounds that hold at any point would be far too large.

When updates are is counted in common, as in `channel.answering`: whoever is asked takes part, whatever its own turns.
An agent that has not enough answers left for a whole update leaves itself out from the beginning of it. An update that
is given up is not made up for: what was answered was answered.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from fedbandits.channel.answering import asks, joined, queries, scheduled
from fedbandits.channel.clipping import clipped
from fedbandits.channel.sensitivity import NoisyField, noisy_fields, one_observation, scattered
from fedbandits.channel.stage import End, Observed
from fedbandits.contract.arrays import BoolArray, FloatArray, IntArray, State
from fedbandits.contract.errors import ConfigError
from fedbandits.contract.facts import Answers, Perturbation, Trained
from fedbandits.contract.messages import Message
from fedbandits.contract.problem import Problem
from fedbandits.contract.protection import Protection
from fedbandits.contract.streams import Streams
from fedbandits.contract.wire import Utterance, WireField, hand_overs
from fedbandits.privacy.gaussian import gaussian_epsilon, gaussian_event, gaussian_mu

if TYPE_CHECKING:
    from dp_accounting import DpEvent

    from fedbandits.channel.gaussian import Gaussian

_SLOPE = (NoisyField("gradient", (1,), False, 1.0),)
_STATISTICS = (NoisyField("gram", (1, 1), True, 1.0), NoisyField("moment", (1,), False, 1.0))


def only_asks(says: tuple[Utterance, ...]) -> bool:
    """Whether agents hand nothing over, and are asked about all their data."""
    return bool(asks(says)) and not hand_overs(says)


def openings(says: tuple[Utterance, ...]) -> frozenset[str]:
    """What agents say before they are asked about their data: an update begins."""
    return frozenset(one.kind for one in says if one.direction == "up" and one not in asks(says))


def check(stage: Gaussian, name: str) -> None:
    """Raise `ConfigError` where `stage` cannot protect agents that only answer."""
    if stage.unit != "observation":
        raise ConfigError(
            f"gaussian: unit={stage.unit!r} makes nothing of some observations, and a network makes something of an "
            f"arm of zeros, too; {name} can protect an 'observation'"
        )


def rounds(stage: Gaussian, problem: Problem) -> int:
    """How many slopes an update asks for."""
    return queries(stage, problem) // stage.turns(problem)[1]


def costs(stage: Gaussian, problem: Problem) -> tuple[float, float]:
    """mu of one slope, and mu of one answer with statistics."""
    updates = stage.turns(problem)[1]
    mu = gaussian_mu(stage.epsilon, stage.delta)
    slopes = mu * math.sqrt(stage.share / (updates * rounds(stage, problem)))
    return slopes, mu * math.sqrt((1 - stage.share) / updates)


def deviations(stage: Gaussian, problem: Problem) -> tuple[float, float]:
    """sigma_s and sigma_z: standard deviations of noise, in units of one observation's bound."""
    slope, statistics = costs(stage, problem)
    return (
        one_observation(_SLOPE, stage.adjacency) / slope,
        one_observation(_STATISTICS, stage.adjacency) / statistics,
    )


def told(stage: Gaussian, problem: Problem, trained: Trained) -> tuple[Answers, Perturbation]:
    """What is told of sums over everybody."""
    slope, statistics = (deviation * math.sqrt(problem.agents) for deviation in deviations(stage, problem))
    return (
        Answers(rounds=rounds(stage, problem), slope=slope * trained.cut),
        Perturbation(
            matrix=statistics * trained.cut**2,
            vector=statistics * trained.cut,
            agents=problem.agents,
            releases=stage.turns(problem)[1],
        ),
    )


def reach(stage: Gaussian, problem: Problem, trained: Trained, item: WireField) -> float:
    """What the norm of noise in a field of one agent's answer comes to, in units of one observation's bound.

    From what was told of it when the budget was set: whoever asks may have more observations in mind.
    """
    answers, sums = problem.get(Answers), problem.get(Perturbation)
    if answers is None or sums is None:
        answers, sums = told(stage, problem, trained)
    statistics = sums.matrix / trained.cut**2 / math.sqrt(problem.agents)
    if item.symmetric:  # entries on the diagonal have sqrt(2) times as much
        return math.sqrt(2) * statistics * trained.features
    if item.bound is not None and item.bound.within is not None:
        return statistics * math.sqrt(trained.features)
    return answers.slope / trained.cut * math.sqrt(trained.parameters / problem.agents)


def event(stage: Gaussian, problem: Problem) -> DpEvent:
    """All that leaves an agent as a `dp_accounting` event. Needs the extra `privacy`."""
    from dp_accounting import ComposedDpEvent, SelfComposedDpEvent

    updates = stage.turns(problem)[1]
    slope, statistics = (gaussian_event(mu) for mu in costs(stage, problem))
    return ComposedDpEvent(
        [
            SelfComposedDpEvent(slope, updates * rounds(stage, problem)),
            SelfComposedDpEvent(statistics, updates),
        ]
    )


class Training(End):
    """For n agents: `observed` (n,) turns so far, `joined` (n,) updates that they need not call for any more, and
    `answered` (n, 2) slopes and statistics.
    """

    keeps: ClassVar[tuple[str, ...]] = ("observed", "joined", "answered", "rng")

    def __init__(
        self,
        stage: Gaussian,
        says: tuple[Utterance, ...],
        n: int,
        rng: Streams,
        problem: Problem,
        sizes: Mapping[str, int],
    ) -> None:
        self._stage, self._problem = stage, problem
        self._fields = {one.kind: noisy_fields(one, "query", problem, sizes) for one in asks(says)}
        self._which = {kind: int(any(field.symmetric for field in held)) for kind, held in self._fields.items()}
        self._turns, updates = stage.turns(problem)
        self._update = np.array([rounds(stage, problem), 1])
        self._allowed = updates * self._update
        self._deviations = deviations(stage, problem)
        self.blind = stage.own == "released"
        self.observed = np.zeros(n, dtype=np.int64)
        self.joined = np.zeros(n, dtype=np.int64)
        self.answered = np.zeros((n, 2), dtype=np.int64)
        self.rng = rng

    def observing(self, who: IntArray, arms: FloatArray, picks: IntArray, rewards: FloatArray) -> Observed:
        """The observation, cut down to its bounds."""
        self.observed[who] += 1
        return clipped(self._problem, arms, picks, rewards)

    def calling(self, would: BoolArray) -> BoolArray:
        """Who has had as many turns as the next update asks for, and may have a part in it."""
        due = would if self._turns is None else self.observed >= scheduled(self._turns, self.joined)
        return np.asarray(due & self._may(np.arange(len(self.observed))))

    def urgency(self, would: FloatArray | None) -> FloatArray | None:
        """How far each agent has come towards the next update."""
        may = self._may(np.arange(len(self.observed)))
        if self._turns is None:
            return None if would is None else np.where(may, would, 0.0)
        behind, ahead = scheduled(self._turns, self.joined - 1), scheduled(self._turns, self.joined)
        return np.asarray(np.where(may, np.clip((self.observed - behind) / (ahead - behind), 0.0, None), 0.0))

    def _may(self, who: IntArray) -> BoolArray:
        """(w,) who has answers left for a whole update."""
        return np.asarray((self.answered[who] + self._update <= self._allowed).all(axis=1))

    def incoming(self, message: Message) -> Message:
        """The same: what a server makes of noisy sums it tells as it is."""
        return message

    def outgoing(self, message: Message) -> Message:
        """An update begins with those who may; answers with fresh noise, of those who may still give one."""
        fields = self._fields.get(message.kind)
        if fields is None:
            said = _only(message, self._may(message.who))
            if self._turns is not None:
                self.joined[said.who] = joined(self._turns, self.observed[said.who], self.joined[said.who])
            return said
        which = self._which[message.kind]
        said = _only(message, self.answered[message.who, which] < self._allowed[which])
        self.answered[said.who, which] += 1
        if len(said.who) == 0:
            return said
        size = sum(field.size for field in fields)
        noise = scattered(fields, self._deviations[which] * self.rng.secret.normal(said.who, size))
        noisy = {field.name: said.arrays[field.name] + noise[field.name] for field in fields}
        return replace(said, arrays={**said.arrays, **noisy})

    def protection(self) -> Protection:
        """See `End`."""
        kinds, which = np.unique(self.answered, axis=0, return_inverse=True)
        spent = np.array([self._epsilon(*row) for row in kinds.tolist()])[which.ravel()]
        leaks = self._stage.leaky and self._turns is None
        made, allowed = self.answered.sum(axis=1), int(self._allowed.sum())
        return self._stage.protection(made, allowed, spent, self._stage.weight(_SLOPE), leaks=leaks)

    def _epsilon(self, slopes: int, statistics: int) -> float:
        """What so many answers cost."""
        one, other = costs(self._stage, self._problem)
        return gaussian_epsilon(math.hypot(one * math.sqrt(slopes), other * math.sqrt(statistics)), self._stage.delta)

    def portrait(self) -> State:
        """Answers given, and epsilon spent on them."""
        found = self.protection()
        return {"releases": found.releases, "epsilon": found.spent}


def _only(message: Message, may: BoolArray) -> Message:
    return message if may.all() else message.of(may)
