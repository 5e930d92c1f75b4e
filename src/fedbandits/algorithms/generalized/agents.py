"""Agents of the generalized linear family."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, ClassVar, NamedTuple

import numpy as np

from fedbandits.algorithms.generalized.parameters import Constants, GLMParameters
from fedbandits.algorithms.generalized.scheduled import OnSchedule, Pace, Scheduled, Spread, is_due
from fedbandits.algorithms.generalized.steps import NewtonSteps, Steps, newton_steps, newton_widths, step_rule
from fedbandits.algorithms.generalized.widths import StepsPart, global_part, local_steps, offline
from fedbandits.contract.arrays import FloatArray, IntArray, check_arms, check_feedback, decided
from fedbandits.contract.compiled import calls, choose, learn, stands_for, untouched
from fedbandits.contract.messages import Closing, Message, Opening
from fedbandits.contract.population import Population
from fedbandits.contract.problem import Problem
from fedbandits.contract.wire import Bound, Utterance, WireError, matrix, vector
from fedbandits.linalg import kernels
from fedbandits.linalg.jit import jit_inside
from fedbandits.models.limits import arm_square
from fedbandits.models.objectives import (
    ASK_CURVATURE,
    ASK_GRADIENT,
    CURVATURE,
    GRADIENT,
    QUESTIONS,
    evaluated,
    pursued,
)
from fedbandits.models.observations import Observations, RawArrays, keep_one
from fedbandits.models.optimistic import OptimisticAgents
from fedbandits.models.ridge import RidgeModels, solve
from fedbandits.models.sharing import COLLECT, counting
from fedbandits.models.statistics import Statistics
from fedbandits.models.told import Told, choose_as_told
from fedbandits.models.triggers import Trigger, watch_of

GRAM = matrix("gram", adds="increment", pooled=True, apart=True, bound=Bound(arm_square))
"""The gram matrix of what is new."""
NEW = Utterance("new", "up", (GRAM, counting(adds="increment", pooled=True, optional=False)))
MODEL = Utterance("model", "down", (matrix("gram", adds="total"), vector("theta"), counting(optional=False)))
"""The result of a global update: all observations' gram matrix and number, and the minimiser."""

BY_GRADIENTS = (COLLECT, NEW, ASK_GRADIENT, GRADIENT, MODEL)
BY_CURVATURES = (COLLECT, NEW, ASK_CURVATURE, CURVATURE, MODEL)


class GlobalUpdates(Population):
    """What the family's agents have in common: raw data that stays, and answers to an optimiser.

    A global update is about what was observed before it began (`Observations.given`): an agent that goes on observing
    during one answers as if it had not, and what it has observed meanwhile counts as observed afterwards.
    """

    data: Observations
    _s: Constants

    def answer(self, request: Message) -> Message | None:
        """Hand over what is new, evaluate the loss, or take in a global update."""
        who = request.who
        if request.kind == COLLECT.kind:
            self.data.give(who)
            return Message(NEW.kind, who, self._hand_over(who))
        if request.kind == MODEL.kind:
            self._take_in(who, request.arrays["gram"], request.arrays["theta"], request.arrays["count"])
            return None
        if request.kind not in QUESTIONS:
            raise WireError(f"generalized linear agents do not understand {request.kind!r}")
        return evaluated(self.data, self._s.link, request)

    def ponder(self, request: Message) -> Callable[[], Message] | None:
        """Gradients and curvatures, over what was given; see `Population`."""
        if request.kind not in QUESTIONS or not untouched(self, GlobalUpdates, "answer"):
            return None
        return partial(evaluated, self.data.so_far(), self._s.link, request)

    def pursue(self, opening: Opening) -> Closing | None:
        """See `Population`."""
        return pursued(self.data, self._s.link, opening) if untouched(self, GlobalUpdates, "answer") else None

    def restore(self, sent: Message, observed: FloatArray) -> None:
        """What was handed over is new again, and not yet part of any global update."""
        if sent.kind != NEW.kind:
            raise WireError(f"generalized linear agents cannot take back {sent.kind!r}")
        self._take_back(sent.who, sent.arrays["gram"], sent.arrays["count"])
        self.data.take_back(sent.who, sent.arrays["count"])

    def _hand_over(self, who: IntArray) -> dict[str, FloatArray]:
        raise NotImplementedError

    def _take_back(self, who: IntArray, gram: FloatArray, count: FloatArray) -> None:
        raise NotImplementedError

    def _take_in(self, who: IntArray, gram: FloatArray, theta: FloatArray, count: FloatArray) -> None:
        raise NotImplementedError


class NewtonAgents(GlobalUpdates, OptimisticAgents):
    """Agents that take online Newton steps between global updates.

    `models` is the ridge regression of predictions <x, theta> on x: lemma 2's centre A^-1 b, with A = (lambda/c) I +
    sum x x^T. `theta` (n, d) is the online Newton iterate; `squares` (n,) is ||z||^2 of all predictions, `regret` (n,)
    the bound B_2 on the local steps, `beta` (n,) the global part of the width.
    """

    keeps: ClassVar[tuple[str, ...]] = ("data", *OptimisticAgents.keeps, "theta", "squares", "regret", "beta")

    def __init__(self, parameters: GLMParameters, problem: Problem, n: int, trigger: Trigger | None = None) -> None:
        self._s = s = parameters.constants(problem)
        super().__init__(RidgeModels(n, problem.dim, self._ridge(s)), trigger=trigger)
        self._rule_of_steps = step_rule(parameters, s, self._ridge(s), self._part(s))
        self.data = Observations(n, problem.dim, problem.horizon)
        self.theta = np.zeros((n, problem.dim))
        self.squares = np.zeros(n)
        self.regret = np.full(n, self._first_regret(s))
        self.beta = np.zeros(n)

    def learn(self, who: IntArray, arms: FloatArray, picks: IntArray, rewards: FloatArray) -> None:
        """One observation per agent in `who`, and one online Newton step."""
        check_feedback(who, arms, picks, rewards, self._n, self.models.dim)
        self.data.add(who, arms, picks, rewards)
        self._step(who, kernels.as_lanes(arms), picks, rewards)

    def _step(self, who: IntArray, lanes: FloatArray, picks: IntArray, rewards: FloatArray) -> None:
        """One online Newton step on what was chosen of `lanes` (w, d, K)."""
        if newton_steps(self._steps(), who, lanes, picks, rewards):
            self.models.refresh()

    def width(self, who: IntArray) -> FloatArray:
        """(w,) the square root of beta + (lambda/c) S^2 - ||z||^2 + centre^T b, scaled."""
        return newton_widths(self._steps(), who)

    def compiled(self) -> Any:
        """See `Population`."""
        pace = self.pace()
        if pace is None or self.data.full or not untouched(self, NewtonAgents, "choose", "learn", "width", "_step"):
            return None
        return NewtonSteps(self._steps(), pace)

    def pace(self) -> Pace | None:
        """When they call, for compiled loops; None where those do not know."""
        watch = watch_of(self._trigger) if untouched(self, NewtonAgents, "calling") else None
        return None if watch is None else Pace(watch, 0, 0, self.data.given)

    def _steps(self) -> Steps:
        models = self.models
        base = (models.base.gram, models.base.moment)
        own = (self.theta, self.squares, self.regret, self.beta)
        return Steps(models.arrays(), *base, self.data.arrays(), *own, self._rule_of_steps)

    @staticmethod
    def _ridge(s: Constants) -> float:
        return s.ridge / s.c

    @staticmethod
    def _first_regret(s: Constants) -> float:
        return s.ridge * s.S**2 / 2

    @staticmethod
    def _part(s: Constants) -> StepsPart:
        return local_steps(s)

    def _hand_over(self, who: IntArray) -> dict[str, FloatArray]:
        handed = self.models.hand_over(who)
        return {"gram": handed.gram, "count": handed.seen}

    def _take_back(self, who: IntArray, gram: FloatArray, count: FloatArray) -> None:
        # predictions are never handed over: whether their sum counts as settled makes no difference
        self.models.unsettle(who, gram, np.zeros((len(who), self.models.dim)), count)

    def _take_in(self, who: IntArray, gram: FloatArray, theta: FloatArray, count: FloatArray) -> None:
        s = self._s
        # what is told to everybody arrives as one row shown to all
        rows = slice(0, 1) if gram.strides[0] == 0 and theta.strides[0] == 0 else slice(None)
        moment = np.einsum("wij,wj->wi", gram[rows], theta[rows])
        shown = np.broadcast_to(moment, theta.shape) if rows.stop else moment
        self.models.replace(who, gram, shown, count, alone=True)
        self.theta[who] = theta
        self.squares[who] = np.einsum("wd,wd->w", moment, theta[rows])
        logdet = kernels.log_determinants(np.ascontiguousarray(gram[rows]), 1.0)
        self.beta[who] = global_part(s, count[rows], logdet, np.linalg.norm(theta[rows], axis=1))
        self.regret[who] = s.c / 2 * offline(s, count[rows]) ** 2
        for late, x, rewards in self.data.since(who):
            self._step(late, x[:, :, None], np.zeros(len(late), dtype=np.int64), rewards)


class ScheduledNewtonAgents(OnSchedule, NewtonAgents):
    """The same, calling by a schedule."""

    def __init__(self, parameters: Scheduled, problem: Problem, n: int) -> None:
        super().__init__(parameters, problem, n)
        self._spread = parameters.spread(problem)


class Centred(NamedTuple):
    """`CentredAgents` for compiled loops."""

    told: Told
    raw: RawArrays
    gram: FloatArray
    moment: FloatArray
    seen: FloatArray
    pace: Pace


@stands_for(choose, Centred)
@jit_inside
def _choose(agents: Centred, i: int, arms: FloatArray, row: int, room: FloatArray) -> int:
    return choose_as_told(agents.told, i, arms, row, room)


@stands_for(learn, Centred)
@jit_inside
def _learn(agents: Centred, i: int, arms: FloatArray, row: int, pick: int, reward: float, room: FloatArray) -> bool:
    kernels.accumulate_one(agents.gram, agents.moment, agents.seen, i, arms, row, pick, reward, room)
    return keep_one(agents.raw, i, arms, row, pick, reward)


@stands_for(calls, Centred)
@jit_inside
def _calls(agents: Centred, i: int) -> bool:
    return is_due(agents.pace, i, agents.raw.kept[i], agents.seen[i], 0.0)


class CentredAgents(OnSchedule, GlobalUpdates):
    """Agents that act on the last global update alone: argmax <theta, x> + width ||x||_{A^-1}. They call by a schedule.

    `inverse` (n, d, d) and `theta` (n, d) are as downloaded, `known` (n,) counts the observations inside; `fresh`
    gathers what is new. `width` maps that number (w,) to widths (w,).
    """

    keeps: ClassVar[tuple[str, ...]] = ("data", "inverse", "theta", "known", "fresh")

    def __init__(
        self,
        constants: Constants,
        problem: Problem,
        n: int,
        spread: Spread,
        *,
        ridge: float,
        width: Callable[[FloatArray], FloatArray],
    ) -> None:
        super().__init__(n)
        self._s = constants
        self._spread = spread
        self._ridge = ridge
        self._width = width
        self.data = Observations(n, problem.dim, problem.horizon)
        self.inverse = np.tile(np.eye(problem.dim) / ridge, (n, 1, 1))
        self.theta = np.zeros((n, problem.dim))
        self.known = np.zeros(n)
        self.fresh = Statistics(n, problem.dim)

    def choose(self, who: IntArray, arms: FloatArray) -> IntArray:
        """The optimistic arm of each agent in `who`."""
        check_arms(who, arms, *self.theta.shape)
        width = self._width(self.known[who])
        return decided(who, kernels.pick_optimistic(self.inverse, self.theta, width, who, kernels.as_lanes(arms)))

    def scores(self, who: IntArray, arms: FloatArray) -> FloatArray | None:
        """The index of every arm; see `Population`."""
        check_arms(who, arms, *self.theta.shape)
        width = self._width(self.known[who])
        return kernels.scores_optimistic(self.inverse, self.theta, width, who, kernels.as_lanes(arms))

    def compiled(self) -> Any:
        """See `Population`."""
        pace = self.pace()
        if pace is None or self.data.full or not untouched(self, CentredAgents, "choose", "learn"):
            return None
        told = Told(self.inverse, self.theta, self._width(self.known))
        return Centred(told, self.data.arrays(), *self.fresh.sums, pace)

    def learn(self, who: IntArray, arms: FloatArray, picks: IntArray, rewards: FloatArray) -> None:
        """One observation per agent in `who`, put aside until the next update."""
        check_feedback(who, arms, picks, rewards, *self.theta.shape)
        x = self.data.add(who, arms, picks, rewards)
        kernels.accumulate(self.fresh.gram, self.fresh.moment, self.fresh.count, who, x, rewards)

    def _hand_over(self, who: IntArray) -> dict[str, FloatArray]:
        new = {"gram": self.fresh.gram[who], "count": self.fresh.count[who]}
        self.fresh.clear(who)
        return new

    def _take_back(self, who: IntArray, gram: FloatArray, count: FloatArray) -> None:
        self.fresh.merge(who, gram, np.zeros((len(who), gram.shape[1])), count)

    def _take_in(self, who: IntArray, gram: FloatArray, theta: FloatArray, count: FloatArray) -> None:
        self.inverse[who] = solve(gram, theta, self._ridge)[0]
        self.theta[who] = theta
        self.known[who] = count
