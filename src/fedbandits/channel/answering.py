"""The agents' end of a noise stage for algorithms that ask: gradients over all data, again and again.

A question is about everything an agent has observed, so that one observation moves every answer after it. Answers get
fresh noise each, and compose one by one: with `queries` of them, each of sensitivity Delta_q and noise sigma_q, and
increments that come to mu_i (`privacy.prefix_sums`), all that leaves an agent is one Gaussian mechanism with

    mu^2 = mu_i^2 + queries (Delta_q / sigma_q)^2,

of which the stage's `share` goes to answers and the rest to increments. Where agents plan, an answer is about one stage
of episodes: a transition moves those of its own stage alone, an episode those of all of them (`channel.planning`).

Whoever calls has everybody asked. So that nobody's answers are used up by those who act more often, updates are counted
in common: an agent calls once its own turns reach the k-th of the schedule, k - 1 being in how many updates it has had
a part already, and whoever is asked hands over what is new, whatever its own turns. Where everybody can be reached the
fastest agent leads, and there are as many updates as the schedule has turns.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from fedbandits.channel.pace import Pace
from fedbandits.channel.releasing import Post, Releasing
from fedbandits.channel.sensitivity import NoisyField, noisy_fields, one_observation, scattered
from fedbandits.contract.arrays import BoolArray, FloatArray, IntArray
from fedbandits.contract.compiled import untouched
from fedbandits.contract.errors import ConfigError
from fedbandits.contract.facts import Answers, Norms, Questions
from fedbandits.contract.messages import Message
from fedbandits.contract.problem import Problem
from fedbandits.contract.protection import Protection
from fedbandits.contract.wire import Utterance
from fedbandits.models.limits import bend, longest, slope
from fedbandits.privacy.gaussian import gaussian_epsilon, gaussian_event, gaussian_mu

if TYPE_CHECKING:
    from dp_accounting import DpEvent

    from fedbandits.channel.gaussian import Gaussian

ROUNDS = 2
"""Questions in each update, unless said otherwise."""

_SLOPE = NoisyField("gradient", (1,), False, 1.0)
_WANTED: Mapping[str, tuple[NoisyField, ...]] = {
    "slope": (_SLOPE,),
    "curvature": (NoisyField("loss", (), False, 1.0), _SLOPE, NoisyField("hessian", (1, 1), True, 1.0)),
    "targets": (NoisyField("moment", (1,), False, 1.0),),
}
"""What an answer is made of."""


def queries(stage: Gaussian, problem: Problem) -> int:
    """How many questions an agent answers in all."""
    updates, told = stage.turns(problem)[1], problem.get(Questions)
    if told is not None and told.wanted == "targets":
        return updates * told.stages
    found = ROUNDS * updates if stage.queries is None else stage.queries
    if found < updates:
        raise ConfigError(
            f"gaussian: queries={found} are too few for {updates} uploads, each of which begins an update that asks at "
            f"least once; raise queries, or lower uploads"
        )
    return found


def budget(stage: Gaussian, problem: Problem) -> tuple[float, float]:
    """mu of all increments, and mu of all answers: together, in squares, that of the budget."""
    mu = gaussian_mu(stage.epsilon, stage.delta)
    if problem.get(Questions) is None:
        return mu, 0.0
    return mu * math.sqrt(1 - stage.share), mu * math.sqrt(stage.share)


def weight(stage: Gaussian, problem: Problem) -> float:
    """By how much one unit moves one answer, in units of the noise's standard deviation."""
    told = problem.get(Questions)
    assert told is not None
    one = one_observation(_WANTED[told.wanted], stage.adjacency)
    return stage.most * one if stage.unit == "person" else one


def moved(stage: Gaussian, problem: Problem) -> int:
    """How many of all answers of an agent one unit moves."""
    told = problem.get(Questions)
    one_stage = told is not None and told.wanted == "targets" and stage.unit != "episode"
    return stage.turns(problem)[1] if one_stage else queries(stage, problem)


def deviation(stage: Gaussian, problem: Problem) -> float:
    """sigma_q: the standard deviation of an answer's noise, in units of one observation's bound."""
    return weight(stage, problem) * math.sqrt(moved(stage, problem)) / budget(stage, problem)[1]


def answers(stage: Gaussian, problem: Problem) -> Answers:
    """What is told of answers summed over everybody; `problem` is as the stage poses it."""
    told = problem.get(Questions)
    assert told is not None
    spread = deviation(stage, problem) * math.sqrt(problem.agents)
    return Answers(
        rounds=queries(stage, problem) // stage.turns(problem)[1],
        slope=spread * _size(problem),
        bend=spread * bend(problem, {}) if told.wanted == "curvature" else 0.0,
    )


def of_one_answer(stage: Gaussian, problem: Problem) -> float:
    """sigma_q as it was told when the budget was set, with a little more for diagonals: what inspection rests on."""
    told = problem.get(Answers) or answers(stage, problem)
    return math.sqrt(2 / problem.agents) * told.slope / _size(problem)


def _size(problem: Problem) -> float:
    """What one observation adds to a vector that is asked for; to targets, in units of the largest there is."""
    told = problem.get(Questions)
    return longest(problem) if told is not None and told.wanted == "targets" else slope(problem, {})


def with_answers(stage: Gaussian, problem: Problem, increments: DpEvent) -> DpEvent:
    """All that leaves an agent as a `dp_accounting` event: its `increments`, and every answer. Needs the extra
    `privacy`.
    """
    from dp_accounting import ComposedDpEvent, SelfComposedDpEvent

    one = gaussian_event(weight(stage, problem) / deviation(stage, problem))
    return ComposedDpEvent([increments, SelfComposedDpEvent(one, moved(stage, problem))])


def asks(says: tuple[Utterance, ...]) -> tuple[Utterance, ...]:
    """What agents answer where they are asked about all their data."""
    return tuple(one for one in says if one.direction == "up" and any(item.adds == "query" for item in one.fields))


def check_asking(stage: Gaussian, name: str, says: tuple[Utterance, ...]) -> None:
    """Raise `ConfigError` where `stage` cannot protect the answers of the algorithm called `name`."""
    if not asks(says):
        if stage.queries is not None:
            raise ConfigError(
                f"gaussian: {name} asks nothing, so that queries={stage.queries} have no use; leave them out"
            )
        return
    if stage.own == "fused":
        raise ConfigError(
            f"gaussian: own='fused' adds an agent's clean sums to those of the others, and {name} asks for an "
            "estimate, which is no sum; use own='released', or own='recent'"
        )
    if stage.unit == "agent":
        raise ConfigError(
            "gaussian: unit='agent' cuts uploads down, and answers over all of an agent's data would be cut down to "
            f"next to nothing; {name} can protect an 'observation' or a 'person'"
        )
    if stage.constants == "thesis":
        raise ConfigError(f"gaussian: the thesis has no constants for {name}, which asks; leave constants='thesis' out")


def scheduled(turns: IntArray, place: IntArray) -> IntArray:
    """(n,) the turns of the schedule at these places; 0 before the first, and none after the last."""
    return np.concatenate([[0], turns, [np.iinfo(np.int64).max]])[place + 1]


def joined(turns: IntArray, observed: IntArray, before: IntArray) -> IntArray:
    """(w,) in how many updates agents with so many turns `observed` have had a part once they have one more than
    `before`; if several turns of the schedule have passed meanwhile, all of them are done with.
    """
    passed = np.searchsorted(turns, observed, side="right")
    return np.minimum(np.maximum(before + 1, passed), len(turns))


class Answering(Releasing):
    """As `Releasing`, for agents that are asked as well; `answered` (n,) counts their answers, and `joined` (n, 2) the
    updates that they need not call for any more, now and before they last handed over.

    An agent that has answered all its questions leaves itself out of the reply, and so does one that is asked at a
    point beyond the parameter's bound, where one observation would weigh more than noise is made for: whoever
    minimises gives up.
    """

    keeps: ClassVar[tuple[str, ...]] = (*Releasing.keeps, "answered", "joined")

    def __init__(self, post: Post) -> None:
        super().__init__(post)
        stage, n, problem = post.stage, post.n, post.problem
        self._asked_for = {one.kind: noisy_fields(one, "query", problem, post.sizes) for one in asks(post.says)}
        told = problem.get(Questions)
        if told is None or any(len(_WANTED[told.wanted]) != len(one) for one in self._asked_for.values()):
            raise ConfigError(
                "gaussian: the algorithm asks its agents about all their data, and does not say what for; let it "
                "assume the fact questions"
            )
        self._queries = queries(stage, problem)
        self._spread = deviation(stage, problem)
        self._each = weight(stage, problem) / self._spread
        self._reach = problem.get(Norms, Norms()).parameter
        self._told_last: tuple[IntArray, Protection] | None = None
        self.answered = np.zeros(n, dtype=np.int64)
        self.joined = np.zeros((n, 2), dtype=np.int64)
        self._beyond: BoolArray | None = None
        """(w,) of those who are being asked: who at a point that is too long."""
        self._factor = 1.0
        """What one observation adds to the answer that is asked for, of what it adds to any."""

    # when they call

    def calling(self, would: BoolArray) -> BoolArray:
        """Who has had as many turns as the next update asks for."""
        if self._turns is None:
            return would & self._due(np.arange(len(would)))
        return np.asarray(self.observed >= self._scheduled(self.joined[:, 0]))

    def pace(self, n: int, dim: int) -> Pace | None:
        """See `End`."""
        if not (untouched(self, Releasing, "observing") and untouched(self, Answering, "calling")):
            return None
        return self._paced(n, dim, self.joined[:, 0].copy(), np.zeros(n, dtype=np.bool_))

    def urgency(self, would: FloatArray | None) -> FloatArray | None:
        """How far each agent has come towards the next update."""
        if self._turns is None:
            return None if would is None else np.where(self.steps.made < self._allowed, would, 0.0)
        behind, ahead = self._scheduled(self.joined[:, 0] - 1), self._scheduled(self.joined[:, 0])
        return np.asarray(np.clip((self.observed - behind) / (ahead - behind), 0.0, None))

    def _scheduled(self, place: IntArray) -> IntArray:
        assert self._turns is not None
        return scheduled(self._turns, place)

    def _due(self, who: IntArray) -> BoolArray:
        """(w,) who has something new to hand over, and may: whoever is asked to, does."""
        return np.asarray((self.steps.made[who] < self._allowed) & (self._passing(who) > self.passed[who]))

    def _passing(self, who: IntArray) -> IntArray:
        """(w,) how many turns have passed."""
        return np.asarray(self.observed[who])

    def _join(self, who: IntArray) -> None:
        """One update more."""
        if self._turns is not None:
            before = self.joined[who, 0]
            self.joined[who, 0] = joined(self._turns, self.observed[who], before)
            self.joined[who, 1] = before

    # what they answer

    def incoming(self, message: Message) -> Message:
        """See `Releasing`; a question is looked at before it is answered."""
        if message.kind in self._asked_for:
            self._beyond = self._too_far(message)
        return super().incoming(message)

    def outgoing(self, message: Message) -> Message:
        """See `Releasing`; answers with fresh noise, of those who may still give one."""
        fields = self._asked_for.get(message.kind)
        if fields is None:
            sent = super().outgoing(message)
            if message.kind == self._kind:
                self._join(message.who)
            return sent
        may = self._answering(message.who)
        said = message if may.all() else message.of(may)
        self._answers(said.who)
        size = sum(field.size for field in fields)
        if len(said.who) == 0:
            return said
        noise = scattered(fields, self._factor * self._spread * self.rng.secret.normal(said.who, size))
        noisy = {field.name: said.arrays[field.name] + noise[field.name] for field in fields}
        return replace(said, arrays={**said.arrays, **noisy})

    def _answering(self, who: IntArray) -> BoolArray:
        """(w,) who answers."""
        may = self.answered[who] < self._queries
        return np.asarray(may if self._beyond is None else may & ~self._beyond)

    def _answers(self, who: IntArray) -> None:
        """One answer more."""
        self.answered[who] += 1

    def returned(self, message: Message) -> Message | None:
        """See `Releasing`: there was no update, and it has to be called for again."""
        if message.kind == self._kind:
            self.joined[message.who, 0] = self.joined[message.who, 1]
        return super().returned(message)

    def _too_far(self, question: Message) -> BoolArray:
        """(w,) who is asked at a point that is longer than any parameter: bounds do not hold there."""
        points = question.arrays["theta"]
        return np.asarray(~(np.sqrt(np.einsum("wd,wd->w", points, points)) <= self._reach))

    # what it costs

    def protection(self) -> Protection:
        """See `End`: uploads and answers are counted together."""
        stage = self._stage
        both = np.stack([self.steps.made, self._moved(), self._given()], axis=1)
        if self._told_last is not None and np.array_equal(self._told_last[0], both):
            return self._told_last[1]  # asked for in every step, and changed by few of them
        kinds, which = np.unique(both, axis=0, return_inverse=True)
        spent = np.array([self._epsilon(int(uploads), int(answered)) for uploads, answered, _ in kinds])[which.ravel()]
        leaks = stage.leaky and self._turns is None
        made, allowed = self.steps.made + self._given(), self._allowed + self._queries
        found = stage.protection(made, allowed, spent, stage.weight(self._fields), leaks=leaks)
        self._told_last = both, found
        return found

    def _given(self) -> IntArray:
        """(n,) how many answers each agent has given."""
        return self.answered

    def _moved(self) -> IntArray:
        """(n,) how many of them one unit moves."""
        return self.answered

    def _epsilon(self, uploads: int, answered: int) -> float:
        """What so many uploads and answers cost."""
        reach = np.append(0.0, self._stage.sensitivities(self._problem, self._fields))[uploads]
        return gaussian_epsilon(
            math.hypot(reach / self._deviation, self._each * math.sqrt(answered)), self._stage.delta
        )
