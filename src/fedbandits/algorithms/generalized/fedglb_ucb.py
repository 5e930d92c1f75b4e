"""FedGLB-UCB and its variants 1 and 2: global updates by accelerated gradient descent over everybody's data."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

import numpy as np
from pydantic import Field

from fedbandits.algorithms.generalized.agents import (
    BY_CURVATURES,
    BY_GRADIENTS,
    CentredAgents,
    NewtonAgents,
    ScheduledNewtonAgents,
)
from fedbandits.algorithms.generalized.noisy_answers import by_noisy_curvatures, by_noisy_slopes
from fedbandits.algorithms.generalized.parameters import GLMParameters
from fedbandits.algorithms.generalized.scheduled import Scheduled
from fedbandits.algorithms.generalized.servers import GlobalUpdateServer, Minimisation
from fedbandits.algorithms.generalized.widths import offline
from fedbandits.contract.arrays import FloatArray
from fedbandits.contract.catalogue import About
from fedbandits.contract.depending import depending
from fedbandits.contract.facts import Questions
from fedbandits.contract.parameters import parameters
from fedbandits.contract.problem import Problem
from fedbandits.contract.streams import Streams
from fedbandits.models.descents import Momentum
from fedbandits.models.minimisers import accelerated, newton
from fedbandits.models.objectives import Descended, Objective
from fedbandits.models.paced import Paced, by_schedule
from fedbandits.models.triggers import Trigger, both

_SOURCE = "Li & Wang, Communication Efficient Federated Learning for Generalized Linear Bandits, NeurIPS 2022"


@parameters
class Descending(GLMParameters):
    """Global updates by accelerated gradient descent, from the last minimiser, certified to 1/m^2 for m observations.

    `momentum`: ``"fista"`` as the publication states it, ``"strong"`` for strongly convex functions, ``"none"``. `cap`
    bounds the rounds of an update; None is 2m + 100.
    """

    momentum: Momentum = "fista"
    cap: Annotated[int, Field(ge=1)] | None = None

    questions: ClassVar[Questions | None] = Questions("slope")

    def server(self, problem: Problem, n: int, rng: Streams) -> GlobalUpdateServer:
        """A server that descends."""
        s = self.constants(problem)

        def descend(objective: Descended, start: FloatArray, m: int, gram: FloatArray) -> Minimisation:
            return accelerated(
                objective,
                start,
                smooth=s.k * s.reach**2 + s.ridge / m,
                strong=s.ridge / m,
                tolerance=certified(s.ridge, m),
                cap=self.cap or 2 * m + 100,
                momentum=self.momentum,
            )

        return GlobalUpdateServer(n, problem.dim, self.ridge, by_noisy_slopes(s, problem) or descend)


def certified(ridge: float, m: int) -> float:
    """The gradient norm sqrt(2 lambda/m^3) that certifies the minimum to 1/m^2."""
    return float(np.sqrt(2 * ridge / m**3))


@parameters
class EventTriggered(Paced, GLMParameters):
    """Updates when an agent has learned enough: D, or ``"theory"`` for T/(n d log(nT)). With `every` b an agent calls
    after b own turns since the last update instead (`models.paced`).
    """

    threshold: Annotated[float, Field(ge=0)] | Literal["theory"] = "theory"

    def trigger(self, problem: Problem) -> Trigger:
        """Who calls: own observations since the last update times log-determinant growth at least D, or a schedule."""
        n, horizon = problem.agents, problem.horizon
        if self.threshold == "theory":
            threshold = horizon / (n * problem.dim * np.log(max(n * horizon, 2)))
        else:
            threshold = float(self.threshold)
        return self.paced(Trigger(both, threshold))


@parameters
class FedGLBUCB(EventTriggered, Descending):
    """Federated generalized linear UCB (Li & Wang, NeurIPS 2022).

    Between global updates agent i takes online Newton steps,

        theta_i <- Proj_{A_i}(theta_i - (mu(<x, theta_i>) - y)/c A_i^-1 x),   A_i = (lambda/c) I + sum x x^T,

    the projection being onto the ball of radius S in the norm of A_i. It acts on the ellipsoid of lemma 2 around
    A_i^-1 b_i, where b_i sums x times the predictions made for it: the minimiser's for everything inside the last
    global update, the iterate's before each step for its own since. It calls when t_i [log det A_i - log det A_last]
    >= D; then everybody uploads the gram matrix of what is new, all together minimise
    F = (1/m) [sum l(<x, theta>, y) + (lambda/2) ||theta||^2] by accelerated gradient descent, one gradient of d
    scalars each way per agent and round, and everybody downloads the result. With J rounds: 2n (J + 1) messages,
    n (d^2 + 1) + 2nJd + n (d^2 + d + 1) scalars.

    Guarantee: for D = T/(n d log(nT)) and the theory width, regret O(k (k + R)/c d sqrt(nT) log(nT)) and
    O(d n^2 sqrt(T) log^2(nT)) messages. Not for a `scale` below 1 or a constant width.
    """

    about: ClassVar[About] = depending(
        About(
            name="fedglb-ucb",
            family="generalized",
            topology="star",
            talks="everybody optimises together when one agent's observations times its log-det growth reach D",
            says=BY_GRADIENTS,
            guarantee="regret O(d sqrt(nT) log(nT)), O(d n^2 sqrt(T) log^2(nT)) messages, theory D and width",
            source=_SOURCE,
            waits=True,
            environment="logistic",
        ),
        by_schedule,
    )

    def agents(self, problem: Problem, n: int, rng: Streams) -> NewtonAgents:
        """n agents that take online Newton steps."""
        return NewtonAgents(self, problem, n, self.trigger(problem))


@parameters
class FedGLBUCB2(Scheduled, Descending):
    """FedGLB-UCB_2: as FedGLB-UCB, but global updates follow a schedule (Li & Wang, appendix E)."""

    about: ClassVar[About] = About(
        name="fedglb-ucb-2",
        family="generalized",
        topology="star",
        talks="everybody optimises together B times",
        says=BY_GRADIENTS,
        calls="scheduled",
        guarantee="regret O(d sqrt(nT) log(nT) sqrt(log T)) for B = d^2 n log(nT), theory width",
        source=_SOURCE,
        waits=True,
        environment="logistic",
    )

    def agents(self, problem: Problem, n: int, rng: Streams) -> ScheduledNewtonAgents:
        """n agents that take online Newton steps."""
        return ScheduledNewtonAgents(self, problem, n)


@parameters
class FedGLBUCB1(Scheduled, Descending):
    """FedGLB-UCB_1: global updates by a schedule and none in between (Li & Wang, appendix E).

    Agents act on the last minimiser: argmax <theta, x> + W ||x||_{A^-1} with W of lemma 9.
    """

    about: ClassVar[About] = About(
        name="fedglb-ucb-1",
        family="generalized",
        topology="star",
        talks="everybody optimises together B times; nothing is learned in between",
        says=BY_GRADIENTS,
        calls="scheduled",
        guarantee="regret O(d sqrt(nT) log(nT)), O(n^2 T log(nT)) messages for B = sqrt(nT), theory width",
        source=_SOURCE,
        waits=True,
        environment="logistic",
    )

    def agents(self, problem: Problem, n: int, rng: Streams) -> CentredAgents:
        """n agents that wait for updates."""
        s = self.constants(problem)

        def width(count: FloatArray) -> FloatArray:
            return self.scale * offline(s, count) if self.width == "theory" else np.full(len(count), float(self.width))

        return CentredAgents(s, problem, n, self.spread(problem), ridge=s.ridge / s.c, width=width)


@parameters
class FedGLBNewton(EventTriggered):
    """FedGLB-UCB with global updates by Newton's method: a handful of round trips instead of hundreds.

    Per round everybody uploads loss, gradient and Hessian at the current iterate (d^2 + d + 1 scalars) and downloads
    the next one (d); the step is halved where the loss does not fall. The certificate, and everything else, is
    FedGLB-UCB's.

    Guarantee: the regret bound of FedGLB-UCB, whose proof uses the global update only through its certificate;
    O(sqrt(T)) updates of few rounds each.
    """

    cap: Annotated[int, Field(ge=1)] = 50

    questions: ClassVar[Questions | None] = Questions("curvature")
    about: ClassVar[About] = depending(
        About(
            name="fedglb-newton",
            family="generalized",
            topology="star",
            talks="as fedglb-ucb, in a few Newton rounds per update",
            says=BY_CURVATURES,
            guarantee="the regret bound of fedglb-ucb",
            source="beyond " + _SOURCE,
            waits=True,
            environment="logistic",
        ),
        by_schedule,
    )

    def agents(self, problem: Problem, n: int, rng: Streams) -> NewtonAgents:
        """n agents that take online Newton steps."""
        return NewtonAgents(self, problem, n, self.trigger(problem))

    def server(self, problem: Problem, n: int, rng: Streams) -> GlobalUpdateServer:
        """A server that takes Newton steps."""
        return newton_server(self, problem, n, self.cap)


def newton_server(parameters: GLMParameters, problem: Problem, n: int, cap: int) -> GlobalUpdateServer:
    """A server that minimises by Newton's method, certified to 1/m^2."""

    def climb(objective: Objective, start: FloatArray, m: int, gram: FloatArray) -> Minimisation:
        return newton(objective, start, tolerance=certified(parameters.ridge, m), cap=cap)

    noisy = by_noisy_curvatures(parameters.constants(problem), problem)
    return GlobalUpdateServer(n, problem.dim, parameters.ridge, noisy or climb)
