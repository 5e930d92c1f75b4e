"""FedGLB-UCB_3: online Newton steps locally and globally."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from fedbandits.algorithms.generalized.agents import GRAM
from fedbandits.algorithms.generalized.parameters import Constants
from fedbandits.algorithms.generalized.scheduled import OnSchedule, Scheduled
from fedbandits.algorithms.generalized.steps import (
    GradientSteps,
    PacedGradientSteps,
    Steps,
    gradient_steps,
    gradient_widths,
    step_rule,
)
from fedbandits.algorithms.generalized.widths import local_steps
from fedbandits.contract.arrays import FloatArray, IntArray, check_feedback, shown_to
from fedbandits.contract.catalogue import About
from fedbandits.contract.compiled import untouched
from fedbandits.contract.messages import Conversation, Message
from fedbandits.contract.parameters import parameters
from fedbandits.contract.problem import Problem
from fedbandits.contract.server import Server
from fedbandits.contract.streams import Streams
from fedbandits.contract.wire import Bound, Utterance, WireError, WireField, matrix, vector
from fedbandits.linalg import kernels
from fedbandits.linalg.projection import project_to_ball
from fedbandits.models.limits import slope
from fedbandits.models.observations import Observations
from fedbandits.models.optimistic import OptimisticAgents
from fedbandits.models.ridge import RidgeModels, solve
from fedbandits.models.sharing import COLLECT

EPOCH = Utterance("epoch", "up", (GRAM, vector("gradient", adds="increment", pooled=True, bound=Bound(slope))))
"""What an agent observed since the last update: gram matrix, and gradient of its loss at the last common estimate."""
ONLINE = Utterance(
    "online",
    "down",
    (
        matrix("gram", adds="total"),
        vector("moment", adds="total"),
        matrix("newton", adds="total"),
        vector("theta"),
        WireField("regret"),
        WireField("squares"),
    ),
)
"""The common state after a global online Newton step."""


@parameters
class FedGLBUCB3(Scheduled):
    """FedGLB-UCB_3: online Newton steps for local and global updates (Li & Wang, appendix E).

    Locally, with g = (mu(<x, theta>) - y) x: A += g g^T, theta <- Proj_A(theta - A^-1 g / eta),
    eta = 1/2 min(1/(4SG), c/(G^2 P)), G^2 = k^2 S^2 + R^2, P = nT/B observations between updates. Globally the same
    step with the sum of all agents' gradients of the epoch at the last common estimate, after which everybody starts
    from the common state; what the local steps of the epoch had learned is discarded. Centre and width come from the
    design matrix V = lambda I + sum x x^T as in FedGLB-UCB.

    What travels: d^2 + d scalars up and 2d^2 + 2d + 2 down per agent and update.

    Guarantee: regret O(d (nT)^(3/4) log(nT)) and O(n^1.5 sqrt(T)) messages for B = sqrt(nT) (theory width).
    """

    about: ClassVar[About] = About(
        name="fedglb-ucb-3",
        family="generalized",
        topology="star",
        talks="everybody, B times, one round each",
        says=(COLLECT, EPOCH, ONLINE),
        calls="scheduled",
        guarantee="regret O(d (nT)^(3/4) log(nT)), O(n^1.5 sqrt(T)) messages for B = sqrt(nT), theory width",
        source="Li & Wang, NeurIPS 2022, appendix E",
        environment="logistic",
    )

    def agents(self, problem: Problem, n: int, rng: Streams) -> OnlineNewtonAgents:
        """n agents with two matrices each."""
        return OnlineNewtonAgents(self, problem, n)

    def server(self, problem: Problem, n: int, rng: Streams) -> OnlineNewtonServer:
        """A server that takes the global steps."""
        return OnlineNewtonServer(self, problem, n)

    def rate(self, problem: Problem) -> float:
        """The learning rate eta."""
        s = self.constants(problem)
        slope = np.sqrt(s.k**2 * s.S**2 + s.R**2)
        batch = max(1.0, s.N * problem.horizon / self.updates)
        return float(0.5 * min(1 / (4 * s.S * slope), s.c / (slope**2 * batch)))


class OnlineNewtonAgents(OnSchedule, OptimisticAgents):
    """`models` is the regression of predictions on arms (V, b); `newton` (n, d, d) is A without its ridge, `inverse`
    its inverse; `last` (n, d) is the last common estimate.
    """

    keeps: ClassVar[tuple[str, ...]] = (
        "data",
        *OptimisticAgents.keeps,
        "newton",
        "inverse",
        "theta",
        "last",
        "regret",
        "squares",
    )

    def __init__(self, parameters: FedGLBUCB3, problem: Problem, n: int) -> None:
        dim = problem.dim
        self._s = s = parameters.constants(problem)
        super().__init__(RidgeModels(n, dim, s.ridge))
        self._spread = parameters.spread(problem)
        self._rule_of_steps = step_rule(parameters, s, s.ridge, local_steps(s))
        self._no_beta = np.zeros(n)
        self._rate = parameters.rate(problem)
        self.data = Observations(n, dim, problem.horizon)
        self.newton = np.zeros((n, dim, dim))
        self.inverse = np.tile(np.eye(dim) / s.ridge, (n, 1, 1))
        self.theta = np.zeros((n, dim))
        self.last = np.zeros((n, dim))
        self.regret = np.full(n, first_regret(s, self._rate))
        self.squares = np.zeros(n)

    def learn(self, who: IntArray, arms: FloatArray, picks: IntArray, rewards: FloatArray) -> None:
        """One observation per agent in `who`, and one online Newton step."""
        check_feedback(who, arms, picks, rewards, *self.theta.shape)
        self.data.add(who, arms, picks, rewards)
        self._step(who, kernels.as_lanes(arms), picks, rewards)

    def _step(self, who: IntArray, lanes: FloatArray, picks: IntArray, rewards: FloatArray) -> None:
        """One online Newton step on what was chosen of `lanes` (w, d, K)."""
        if gradient_steps(self._gradient_steps(), who, lanes, picks, rewards):
            self.models.refresh()

    def width(self, who: IntArray) -> FloatArray:
        """(w,) the square root of lambda S^2 + beta - ||z||^2 + centre^T b, scaled."""
        return gradient_widths(self._steps(), who)

    def compiled(self) -> Any:
        """See `Population`."""
        pace = self.pace()
        if (
            pace is None
            or self.data.full
            or not untouched(self, OnlineNewtonAgents, "choose", "learn", "width", "_step")
        ):
            return None
        return PacedGradientSteps(self._gradient_steps(), pace)

    def _steps(self) -> Steps:
        models = self.models
        base = (models.base.gram, models.base.moment)
        own = (self.theta, self.squares, self.regret, self._no_beta)
        return Steps(models.arrays(), *base, self.data.arrays(), *own, self._rule_of_steps)

    def _gradient_steps(self) -> GradientSteps:
        return GradientSteps(self._steps(), self.newton, self.inverse, self._rate)

    def answer(self, request: Message) -> Message | None:
        """Hand over the epoch, or take in the common state."""
        who, models = request.who, self.models
        if request.kind == COLLECT.kind:
            gradient = self.data.gradients(self._s.link, who, self.last[who], given=False)
            self.data.give(who)
            return Message(EPOCH.kind, who, {"gram": models.hand_over(who).gram, "gradient": gradient})
        if request.kind != ONLINE.kind:
            raise WireError(f"online Newton agents do not understand {request.kind!r}")
        told = request.arrays
        models.replace(who, told["gram"], told["moment"], np.zeros(len(who)), alone=True)
        self.inverse[who] = solve(told["newton"], told["theta"], self._s.ridge)[0]
        self.newton[who] = told["newton"]
        self.theta[who] = self.last[who] = told["theta"]
        self.regret[who], self.squares[who] = told["regret"], told["squares"]
        for late, x, rewards in self.data.since(who):
            self._step(late, x[:, :, None], np.zeros(len(late), dtype=np.int64), rewards)
        return None

    def restore(self, sent: Message, observed: FloatArray) -> None:
        """The epoch goes on; its gradient is computed when it is asked for."""
        if sent.kind != EPOCH.kind:
            raise WireError(f"online Newton agents cannot take back {sent.kind!r}")
        who = sent.who
        # predictions are never handed over: whether their sum counts as settled makes no difference
        self.models.unsettle(who, sent.arrays["gram"], np.zeros((len(who), self.models.dim)), observed)
        self.data.take_back(who, observed)


class OnlineNewtonServer(Server):
    """The common state, all with a leading axis of 1."""

    keeps: ClassVar[tuple[str, ...]] = ("gram", "moment", "newton", "theta", "regret", "squares")
    waits: ClassVar[bool] = True

    def __init__(self, parameters: FedGLBUCB3, problem: Problem, n: int) -> None:
        dim = problem.dim
        self._s = s = parameters.constants(problem)
        self._rate = parameters.rate(problem)
        self._everybody = np.arange(n)
        self.gram = np.zeros((1, dim, dim))
        self.moment = np.zeros((1, dim))
        self.newton = np.zeros((1, dim, dim))
        self.theta = np.zeros((1, dim))
        self.regret = np.full(1, first_regret(s, self._rate))
        self.squares = np.zeros(1)

    def converse(self, callers: IntArray) -> Conversation:
        """One global online Newton step, on the epochs of those who can be reached."""
        if len(callers) == 0:
            return
        epoch = yield Message(COLLECT.kind, self._everybody)
        if len(epoch.who) == 0:
            return
        gram = epoch.arrays["gram"].sum(axis=0)
        gradient = epoch.arrays["gradient"].sum(axis=0)
        predicted = gram @ self.theta[0]
        self.gram += gram
        self.moment += predicted
        self.squares += self.theta[0] @ predicted
        self.newton += np.outer(gradient, gradient)
        inverse = solve(self.newton, self.theta, self._s.ridge)[0][0]
        towards = inverse @ gradient
        self.regret += gradient @ towards / (2 * self._rate)
        self.theta[:] = inside(self.newton, self.theta - towards / self._rate, self._s)
        told = {name: getattr(self, name) for name in self.keeps}
        yield Message(
            ONLINE.kind,
            self._everybody,
            shown_to(len(self._everybody), told),
        )


def first_regret(s: Constants, rate: float) -> float:
    """B before any observation, 2 eta lambda S^2."""
    return 2 * rate * s.ridge * s.S**2


def inside(newton: FloatArray, point: FloatArray, s: Constants) -> FloatArray:
    """(w, d) `point` projected onto the ball of radius S in the norm of A = lambda I + `newton` (w, d, d)."""
    return project_to_ball(newton + s.ridge * np.eye(s.d), point, s.S)
