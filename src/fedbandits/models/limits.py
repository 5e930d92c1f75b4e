"""What honest observations cannot exceed: the limits that declared fields keep to (`contract.wire.Bound`).

Arms x have norms of at most L, parameters of at most S (`Norms`), rewards y sizes of at most R. Every function but
`largest_reward` takes the problem and the arrays of the question that is answered, as `Bound.limit` is called.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np

from fedbandits.contract.arrays import Array, FloatArray
from fedbandits.contract.facts import Link, Moment, Noise, Norms, Range
from fedbandits.contract.problem import Problem

_CHANCE = 1e-12
"""With which probability any sub-Gaussian reward of the whole run may exceed the bound that rewards are held to."""
_LARGEST_EXPONENT = 700.0
"""exp(700) is as good as no bound, and still a number."""


def largest_reward(problem: Problem) -> float:
    """R: a bound on the size of all rewards of the federation; infinite where nothing is known.

    That of the fact `Range` if it is told. Otherwise the largest mean plus what sub-Gaussian noise exceeds in any of
    the n T rewards with a probability of 10^-12 at most; with the fact `Moment` there is none.
    """
    known = problem.get(Range)
    if known is not None:
        return known.largest
    if problem.get(Moment) is not None:
        return math.inf
    rewards = problem.agents * problem.horizon
    beyond = math.sqrt(2 * math.log(2 * rewards / _CHANCE))
    return _largest_mean(problem, None) + problem.get(Noise, Noise()).sigma * beyond


def arm_square(problem: Problem, asked: Mapping[str, Array]) -> float:
    """L^2: the trace of x x^T."""
    return problem.get(Norms, Norms()).arms ** 2


def reward(problem: Problem, asked: Mapping[str, Array]) -> float:
    """R; see `largest_reward`."""
    return largest_reward(problem)


def slope(problem: Problem, asked: Mapping[str, Array]) -> float:
    """L (sup_x |mu(<x, theta>)| + R): the norm of the gradient x (mu(<x, theta>) - y) of one loss at the `theta` that
    was asked about; infinite where none was.
    """
    theta = asked.get("theta")
    if theta is None:
        return math.inf
    return problem.get(Norms, Norms()).arms * (_largest_mean(problem, theta) + largest_reward(problem))


def none(problem: Problem, asked: Mapping[str, Array]) -> float:
    """No limit, for what is bounded from below alone."""
    return math.inf


def _largest_mean(problem: Problem, theta: FloatArray | None) -> float:
    """The largest |mu(<theta, x>)|; None stands for any theta within its bound."""
    link = problem.get(Link, Link()).function
    if link in ("logistic", "probit"):
        return 1.0
    norms = problem.get(Norms, Norms())
    reach = (norms.parameter if theta is None else float(np.linalg.norm(theta))) * norms.arms
    return reach if link == "identity" else math.exp(min(reach, _LARGEST_EXPONENT))
