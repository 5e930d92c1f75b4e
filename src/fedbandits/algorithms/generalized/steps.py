"""Online Newton steps of one agent, compiled: what populations take turn by turn, and what compiled loops take."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from fedbandits.algorithms.generalized.parameters import Constants, GLMParameters
from fedbandits.algorithms.generalized.scheduled import Pace, is_due
from fedbandits.algorithms.generalized.widths import StepsPart, part_at
from fedbandits.contract.arrays import FloatArray, IntArray
from fedbandits.contract.compiled import calls, choose, learn, stands_for
from fedbandits.linalg import kernels
from fedbandits.linalg.borrowing import borrowed
from fedbandits.linalg.jit import jit, jit_inside, jit_part
from fedbandits.linalg.links import mean
from fedbandits.linalg.projection import project_one
from fedbandits.linalg.simd import address, load, store, target
from fedbandits.models.observations import RawArrays, keep_one
from fedbandits.models.ridge import RidgeArrays, learn_one


class StepRule(NamedTuple):
    """The constants of steps and widths: mu by number, c, the radius S, the ridge of models; and the width, which is a
    constant, or `scale` times what `part` and theory make of it (`constant` < 0).
    """

    link: int
    c: float
    radius: float
    ridge: float
    constant: float
    scale: float
    part: StepsPart


def step_rule(parameters: GLMParameters, s: Constants, ridge: float, part: StepsPart) -> StepRule:
    """Of agents with these hyper-parameters, whose models have the given ridge."""
    constant = -1.0 if parameters.width == "theory" else float(parameters.width)
    return StepRule(s.link.code, s.c, s.S, ridge, constant, parameters.scale, part)


class Steps(NamedTuple):
    """Agents that regress on their predictions and take online Newton steps: `theta` (n, d) are the iterates,
    `squares` (n,), `regret` (n,) and `beta` (n,) what widths are made of, `base` what models rest on.
    """

    models: RidgeArrays
    base_gram: FloatArray
    base_moment: FloatArray
    raw: RawArrays
    theta: FloatArray
    squares: FloatArray
    regret: FloatArray
    beta: FloatArray
    rule: StepRule


@jit_inside
def newton_step(steps: Steps, i: int, arms: FloatArray, row: int, pick: int, reward: float, room: FloatArray) -> bool:
    """theta <- Proj_A(theta - (mu(<x, theta>) - y)/c A^-1 x), the regression having learned <x, theta> first; whether
    it is time to `refresh`.
    """
    rule, models = steps.rule, steps.models
    _, d, count = arms.shape
    x, towards = target(room, room.shape[0] - 2 * d), target(room, room.shape[0] - d)
    theta = target(steps.theta, i * d)
    kernels.gather(address(arms, row * d * count), d, count, pick, x)
    score = kernels.dot(x, theta, d)
    due = learn_one(models, i, arms, row, pick, score, room)
    slope = mean(rule.link, score) - reward
    kernels.product(address(models.inverse, i * d * d), x, d, towards)
    _note(steps, i, score, slope, kernels.dot(x, towards, d), rule.c)
    kernels.axpy(-slope / rule.c, towards, theta, d)
    fresh = address(models.gram, i * d * d)
    project_one(theta, d, rule.radius, address(steps.base_gram, i * d * d), fresh, 1.0, rule.ridge)
    return due


@jit_part
def _note(steps: Steps, i: int, score: float, slope: float, square: float, rate: float) -> None:
    """Another prediction, and what a step along a gradient of `square` slope^2 adds to the bound on the regret."""
    steps.squares[i] += score * score
    steps.regret[i] += slope * slope * square / (2.0 * rate)


@jit_part
def confidence(steps: Steps, i: int, knows: bool, beta: float) -> float:
    """The square root of beta + lambda S^2 - ||z||^2 + centre^T b, scaled, where `beta` and what steps add count if the
    agent `knows` anything; or the constant width.
    """
    rule, models = steps.rule, steps.models
    if rule.constant >= 0.0:
        return rule.constant
    explained = 0.0
    for j in range(models.theta.shape[1]):
        explained += models.theta[i, j] * (steps.base_moment[i, j] + models.moment[i, j])
    squared = (beta + part_at(rule.part, steps.regret[i])) if knows else 0.0
    squared += rule.ridge * rule.radius * rule.radius - (steps.squares[i] - explained)
    return rule.scale * math.sqrt(max(squared, 0.0))


# --- FedGLB-UCB, its variant 2, and agents alone


class NewtonSteps(NamedTuple):
    """`NewtonAgents`."""

    steps: Steps
    pace: Pace


@jit_inside
def newton_width(steps: Steps, i: int) -> float:
    """The width of agent i after a global update and steps since."""
    knows = steps.models.settled[i] + steps.models.seen[i] > 0.0
    return confidence(steps, i, knows, steps.beta[i])


@stands_for(choose, NewtonSteps)
@jit_inside
def _choose(agents: NewtonSteps, i: int, arms: FloatArray, row: int, room: FloatArray) -> int:
    models = agents.steps.models
    return kernels.pick_one(models.inverse, models.theta, i, newton_width(agents.steps, i), arms, row, room)


@stands_for(learn, NewtonSteps)
@jit_inside
def _learn(agents: NewtonSteps, i: int, arms: FloatArray, row: int, pick: int, reward: float, room: FloatArray) -> bool:
    full = keep_one(agents.steps.raw, i, arms, row, pick, reward)
    return newton_step(agents.steps, i, arms, row, pick, reward, room) or full


@stands_for(calls, NewtonSteps)
@jit_inside
def _calls(agents: NewtonSteps, i: int) -> bool:
    models = agents.steps.models
    return is_due(agents.pace, i, agents.steps.raw.kept[i], models.seen[i], models.growth[i])


@jit
def newton_steps(steps: Steps, who: IntArray, lanes: FloatArray, picks: IntArray, rewards: FloatArray) -> bool:
    """A step of each of `who` on what it has chosen of `lanes` (w, d, K)."""
    steps = borrowed(steps)
    due = False
    room = np.zeros(kernels.room_for(lanes.shape[1], lanes.shape[2]))
    for a in range(len(who)):
        due |= newton_step(steps, who[a], lanes, a, picks[a], rewards[a], room)
    return due


@jit
def newton_widths(steps: Steps, who: IntArray) -> FloatArray:
    """(w,) widths."""
    steps = borrowed(steps)
    out = np.empty(len(who))
    for a in range(len(who)):
        out[a] = newton_width(steps, who[a])
    return out


# --- variant 3: steps by the gradients' outer products


class GradientSteps(NamedTuple):
    """Steps in which `newton` (n, d, d) is A without its ridge, `inverse` its inverse, `rate` eta."""

    steps: Steps
    newton: FloatArray
    inverse: FloatArray
    rate: float


class PacedGradientSteps(NamedTuple):
    """`OnlineNewtonAgents`."""

    own: GradientSteps
    pace: Pace


@jit_inside
def gradient_step(
    agents: GradientSteps, i: int, arms: FloatArray, row: int, pick: int, reward: float, room: FloatArray
) -> bool:
    """A += g g^T, theta <- Proj_A(theta - A^-1 g / eta), g = (mu(<x, theta>) - y) x; see `newton_step`."""
    steps = agents.steps
    rule = steps.rule
    _, d, count = arms.shape
    g, towards = target(room, room.shape[0] - 2 * d), target(room, room.shape[0] - d)
    theta, outer = target(steps.theta, i * d), target(agents.newton, i * d * d)
    kernels.gather(address(arms, row * d * count), d, count, pick, g)
    score = kernels.dot(g, theta, d)
    due = learn_one(steps.models, i, arms, row, pick, score, room)
    slope = mean(rule.link, score) - reward
    for j in range(d):
        store(g, j, slope * load(0.0, g, j))
        store(towards, j, 0.0)
    inverse = target(agents.inverse, i * d * d)
    # what else Sherman-Morrison does, to an estimate, is done to zeros
    kernels.sherman_morrison(inverse, towards, g, 0.0, d, target(room, 4 * d), target(room, 5 * d))
    kernels.add_outer(1.0, g, d, outer, target(room, 5 * d))
    kernels.product(inverse, g, d, towards)
    _note(steps, i, score, 1.0, kernels.dot(g, towards, d), agents.rate)
    kernels.axpy(-1.0 / agents.rate, towards, theta, d)
    project_one(theta, d, rule.radius, outer, outer, 0.0, rule.ridge)
    return due


@jit_inside
def gradient_width(steps: Steps, i: int) -> float:
    """The width of agent i; what others observed counts too: it may have been told before its own first turn."""
    d = steps.theta.shape[1]
    knows = steps.models.seen[i] > 0.0
    for place in range(d * d):
        if knows:
            break
        knows = load(0.0, address(steps.base_gram, i * d * d), place) != 0.0
    return confidence(steps, i, knows, 0.0)


@stands_for(choose, PacedGradientSteps)
@jit_inside
def _choose_by_gradients(agents: PacedGradientSteps, i: int, arms: FloatArray, row: int, room: FloatArray) -> int:
    models = agents.own.steps.models
    return kernels.pick_one(models.inverse, models.theta, i, gradient_width(agents.own.steps, i), arms, row, room)


@stands_for(learn, PacedGradientSteps)
@jit_inside
def _learn_by_gradients(
    agents: PacedGradientSteps, i: int, arms: FloatArray, row: int, pick: int, reward: float, room: FloatArray
) -> bool:
    full = keep_one(agents.own.steps.raw, i, arms, row, pick, reward)
    return gradient_step(agents.own, i, arms, row, pick, reward, room) or full


@stands_for(calls, PacedGradientSteps)
@jit_inside
def _calls_by_gradients(agents: PacedGradientSteps, i: int) -> bool:
    models = agents.own.steps.models
    return is_due(agents.pace, i, agents.own.steps.raw.kept[i], models.seen[i], models.growth[i])


@jit
def gradient_steps(
    agents: GradientSteps, who: IntArray, lanes: FloatArray, picks: IntArray, rewards: FloatArray
) -> bool:
    """A step of each of `who`; see `newton_steps`."""
    agents = borrowed(agents)
    due = False
    room = np.zeros(kernels.room_for(lanes.shape[1], lanes.shape[2]))
    for a in range(len(who)):
        due |= gradient_step(agents, who[a], lanes, a, picks[a], rewards[a], room)
    return due


@jit
def gradient_widths(steps: Steps, who: IntArray) -> FloatArray:
    """(w,) widths."""
    steps = borrowed(steps)
    out = np.empty(len(who))
    for a in range(len(who)):
        out[a] = gradient_width(steps, who[a])
    return out
