"""Distributed minimisation as a conversation: the server owns the iterate, the agents own the data.

The objective is F(theta) = (1/m) [sum over m observations of l(<x, theta>, y) + (lambda/2) ||theta||^2], which is
lambda/m-strongly convex. A gradient of norm g certifies F(theta) - min F <= g^2 m / (2 lambda), so that
||grad F|| <= sqrt(2 lambda epsilon / m) certifies epsilon: methods stop by that certificate, not by a count. Only where
answers carry noise is there none, and a count of rounds that were paid for (`averaged`).

Each method is a generator to be delegated to with ``yield from`` inside a server's conversation. It asks an
`Objective`, which yields the actual requests, so it knows nothing of agents, kinds of messages or carriers.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from dataclasses import dataclass

import numpy as np

from fedbandits.contract.arrays import FloatArray
from fedbandits.contract.messages import Message
from fedbandits.models.descents import Descent, DescentRule, Momentum
from fedbandits.models.networks.descent import Stepper
from fedbandits.models.objectives import Descended, Objective

_HAIR = 1 - 1e-12


@dataclass(frozen=True, slots=True)
class Minimum:
    """Where a minimisation ended: `rounds` counts the requests, the certifying one included; not `certified` where it
    hit its cap, or was answered with noise.
    """

    theta: FloatArray
    gradient: FloatArray
    rounds: int
    certified: bool


def accelerated(
    objective: Descended,
    start: FloatArray,
    *,
    smooth: float,
    strong: float,
    tolerance: float,
    cap: int,
    momentum: Momentum = "fista",
) -> Generator[Message, Message, Minimum]:
    """Gradient descent with step 1/`smooth` until ||grad F|| <= `tolerance`, at most `cap` rounds.

    ``"fista"`` is Nesterov's momentum as the publication states it: v_0 = 0, v_j = (1 + sqrt(1 + 4 v_{j-1}^2))/2,
    gamma_j = (1 - v_j)/v_{j+1}, theta <- (1 - gamma_j) next + gamma_j previous. ``"strong"`` has the constant momentum
    (sqrt(kappa) - 1)/(sqrt(kappa) + 1), kappa = smooth/strong, of strongly convex functions; ``"none"`` is plain
    descent.
    """
    kappa = np.sqrt(smooth / strong)
    constant = float((kappa - 1) / (kappa + 1)) if momentum == "strong" else 0.0
    descent = Descent(start, DescentRule(float(smooth), momentum == "fista", constant, float(tolerance), cap))
    while True:
        gradient = yield from objective.gradient(descent.theta, descent)
        if descent.take(gradient):
            return Minimum(descent.theta, gradient, descent.rounds, certified=descent.certified)


def newton(
    objective: Objective, start: FloatArray, *, tolerance: float, cap: int
) -> Generator[Message, Message, Minimum]:
    """Newton's method, the step halved until F falls, until ||grad F|| <= `tolerance`, at most `cap` rounds.

    A round that was not an improvement costs as much as any other, and is counted.
    """
    theta = start
    value, gradient, hessian = yield from objective.curvature(theta)
    rounds = 1
    while np.linalg.norm(gradient) > tolerance:
        direction = np.linalg.solve(hessian, gradient)
        decrease = float(gradient @ direction)
        step = 1.0
        while True:
            if rounds >= cap:
                return Minimum(theta, gradient, rounds, certified=False)
            trial = theta - step * direction
            rounds += 1
            found = yield from objective.curvature(trial)
            # below rounding of F itself no decrease can be seen: let the gradient decide
            slack = 1e-14 * max(abs(value), 1.0)
            if found[0] <= value - 1e-4 * step * decrease + slack:
                break
            step /= 2
        theta, (value, gradient, hessian) = trial, found
    return Minimum(theta, gradient, rounds, certified=True)


def averaged(
    objective: Objective,
    start: FloatArray,
    *,
    scale: FloatArray | Callable[[FloatArray], FloatArray],
    rounds: int,
    radius: float,
) -> Generator[Message, Message, Minimum]:
    """Exactly `rounds` rounds, for answers that carry noise: theta <- theta - (1/j) B^-1 grad F in the j-th of them,
    cut down to the ball of the given `radius`.

    `scale` is B (d, d), or makes it of the Hessian of each answer. Where B is the Hessian of a quadratic F, the first
    step leads to the minimum and noise, and the others average the noise of all rounds: as good as one answer with 1/J
    of its variance, which is what J answers cost. Nothing is certified: gradients are known up to noise alone.
    """
    theta, gradient = start, np.zeros_like(start)
    for number in range(1, rounds + 1):
        if callable(scale):
            _, gradient, hessian = yield from objective.curvature(theta)
            step = np.linalg.solve(scale(hessian), gradient)
        else:
            gradient = yield from objective.gradient(theta)
            step = np.linalg.solve(scale, gradient)
        theta = within(theta - step / number, radius)
    return Minimum(theta, gradient, rounds, certified=False)


def walked(
    objective: Objective, start: FloatArray, stepper: Stepper, *, rounds: int, radius: float
) -> Generator[Message, Message, Minimum]:
    """Exactly `rounds` steps as `stepper` takes them, such as `Langevin` or `Adam`, of a function that need not be
    convex; the point is cut down to the ball of the given `radius` after each. Nothing is certified.
    """
    theta, gradient = start, np.zeros_like(start)
    for _ in range(rounds):
        gradient = yield from objective.gradient(theta)
        theta = within(stepper.step(theta, gradient), radius)
    return Minimum(theta, gradient, rounds, certified=False)


class Langevin:
    """theta - rate g + sqrt(2 rate / temperature) z, z standard normal: descent that does not stay in a poor minimum.

    `temperature` is the inverse one of the publications: infinite for plain descent, which draws nothing. `draws` is
    asked for z, with the length it has to have.
    """

    def __init__(self, rate: float, temperature: float, draws: Callable[[int], FloatArray]) -> None:
        self._rate = rate
        self._noise = float(np.sqrt(2 * rate / temperature))
        self._draws = draws

    def step(self, theta: FloatArray, gradient: FloatArray) -> FloatArray:
        """See `Stepper`."""
        moved = theta - self._rate * gradient
        return np.asarray(moved + self._noise * self._draws(len(theta)) if self._noise else moved)


def within(point: FloatArray, radius: float) -> FloatArray:
    """`point` (d,), cut down to a length of at most `radius`, by a hair less so that no rounding leads beyond."""
    length = float(np.linalg.norm(point))
    return point if length < radius * _HAIR else point * (radius * _HAIR / length)
