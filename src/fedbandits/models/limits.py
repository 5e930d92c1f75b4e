"""What honest observations cannot exceed: the limits that declared fields keep to (`contract.wire.Bound`).

Arms x have norms of at most L, parameters of at most S (`Norms`), rewards y sizes of at most R; z = <x, theta> is at
most ||theta|| L. Every function but `largest_reward` takes the problem, as the algorithm poses it, and the arrays of
the question that is answered, as `Bound.limit` is called; `problem.horizon` is how many observations an agent can have
made by then. Where a question names no `theta`, the point is one of the algorithm's own estimates, which has a norm of
at most S.

All limits are finite. What is not in them: rewards that may be anything at all (`Contamination`) are held to the same R
as all others. Tell `Range` where that is too small: an agent with larger rewards is not let in.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np

from fedbandits.contract.arrays import Array, FloatArray
from fedbandits.contract.facts import Embedding, Link, Moment, Noise, Norms, Range, Ridge
from fedbandits.contract.problem import Problem
from fedbandits.linalg.links import LinkName, MeanFunction, cumulant

_CHANCE = 1e-12
"""With which probability any reward of the whole run may exceed the bound that rewards are held to."""
_LARGEST_EXPONENT = 100.0
"""exp(100) is as good as no bound, and sums of its squares are still numbers."""
STRAYED = 100.0
"""How many times S a block's estimate may be long where it is taken out of another's moment; see `residual`."""


def largest_reward(problem: Problem) -> float:
    """R: a bound on the size of all rewards of the federation.

    That of the fact `Range` if it is told. Otherwise what any of the n T rewards exceeds with a probability of 10^-12
    at most: the largest mean plus sigma sqrt(2 log(2 n T 10^12)) of sub-Gaussian noise, or, with E|X|^p <= v of the
    fact `Moment`, (n T v 10^12)^(1/p) by Markov's inequality. The latter is large, and says as little as is known.
    """
    known = problem.get(Range)
    if known is not None:
        return known.largest
    rewards = problem.agents * problem.horizon
    heavy = problem.get(Moment)
    if heavy is not None:
        return float((rewards * heavy.raw / _CHANCE) ** (1 / heavy.order))
    beyond = math.sqrt(2 * math.log(2 * rewards / _CHANCE))
    return _largest_mean(problem, None) + problem.get(Noise, Noise()).sigma * beyond


def longest(problem: Problem) -> float:
    """L: the largest norm of what models see of an arm, which are its features where they have any (`Embedding`)."""
    seen = problem.get(Embedding)
    return problem.get(Norms, Norms()).arms if seen is None else seen.size


def arm_square(problem: Problem, asked: Mapping[str, Array]) -> float:
    """L^2: the trace of x x^T."""
    return longest(problem) ** 2


def reward(problem: Problem, asked: Mapping[str, Array]) -> float:
    """R; see `largest_reward`."""
    return largest_reward(problem)


def residual(problem: Problem, asked: Mapping[str, Array]) -> float:
    """R + 100 S L: the size of y - <x, theta>, theta being an estimate that is cut down to 100 times S (`STRAYED`)
    before it is taken out of what others are told.
    """
    norms = problem.get(Norms, Norms())
    return largest_reward(problem) + STRAYED * norms.parameter * norms.arms


def slope(problem: Problem, asked: Mapping[str, Array]) -> float:
    """L sup |mu(z) - y|: the norm of the gradient x (mu(z) - y) of one loss at `theta`.

    At most L (sup |mu(z)| + R); where mu is between 0 and 1 and rewards have a known `Range`, that from the one to the
    other, which for clicks is half as much.
    """
    arms, known = problem.get(Norms, Norms()).arms, problem.get(Range)
    if known is not None and _link(problem) in ("logistic", "probit"):
        return arms * max(1.0 - known.low, known.high)
    return arms * (_largest_mean(problem, asked.get("theta")) + largest_reward(problem))


def bend(problem: Problem, asked: Mapping[str, Array]) -> float:
    """L^2 sup mu'(z): the trace of the Hessian mu'(z) x x^T of one loss at `theta`.

    mu' is at most 1/4 (logistic), 1/sqrt(2 pi) (probit), 1 (identity) or exp(||theta|| L) (Poisson).
    """
    reach = min(_reach(problem, asked.get("theta")), _LARGEST_EXPONENT)
    return arm_square(problem, asked) * MeanFunction(_link(problem), reach).steepest


def loss(problem: Problem, asked: Mapping[str, Array]) -> float:
    """sup m(z) + R ||theta|| L: the size of one loss m(z) - y z at `theta`, with m' = mu.

    m is not negative and largest at z = ||theta|| L, for all links: it rises where mu is positive, and z^2/2 is even.
    """
    reach = _reach(problem, asked.get("theta"))
    return float(cumulant(MeanFunction(_link(problem)).code, reach)) + largest_reward(problem) * reach


def growth(problem: Problem, asked: Mapping[str, Array]) -> float:
    """d log(1 + T L^2 / (d lambda)): by how much T observations can raise log det V, V being at least lambda I.

    log det(V + A) - log det V <= log det(I + A/lambda), which is largest, for a given trace of A <= T L^2, where all
    its d eigenvalues are the same. lambda is what the algorithm says of itself (`Ridge`).
    """
    ridge = problem.get(Ridge, Ridge()).least
    return problem.dim * math.log1p(problem.horizon * arm_square(problem, asked) / (problem.dim * ridge))


def none(problem: Problem, asked: Mapping[str, Array]) -> float:
    """No limit, for what is bounded from below alone."""
    return math.inf


def _link(problem: Problem) -> LinkName:
    return problem.get(Link, Link()).function


def _reach(problem: Problem, theta: FloatArray | None) -> float:
    """The largest |z|, as far as exponentials of it are numbers; None stands for any theta within its bound."""
    norms = problem.get(Norms, Norms())
    reach = (norms.parameter if theta is None else float(np.linalg.norm(theta))) * norms.arms
    return min(reach, _LARGEST_EXPONENT) if _link(problem) == "poisson" else reach


def _largest_mean(problem: Problem, theta: FloatArray | None) -> float:
    """The largest |mu(z)|."""
    link = _link(problem)
    if link in ("logistic", "probit"):
        return 1.0
    reach = _reach(problem, theta)
    return reach if link == "identity" else math.exp(reach)
