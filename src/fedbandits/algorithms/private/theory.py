"""What theory says of regret under a budget: expressions of the thesis' theorems 6.4 and 6.5 (Dubey 2022).

Both are of the order of what they say, without a constant, and about the worst problem of a size: there are problems on
which no policy within the budget does better, and others, with large gaps, on which runs stay below. Theorem 6.4
(theorem 2 of Basu, Dimitrakakis & Tossou 2020) is for pure differential privacy with epsilon <= 1/2.
"""

from __future__ import annotations

import math

from fedbandits.contract.algorithm import Bounds
from fedbandits.contract.problem import Problem


def alone(problem: Problem, epsilon: float | None) -> Bounds | None:
    """Theorem 6.4 for each of n agents on their own: n sqrt((K - 1) T / (2 epsilon (e^(2 epsilon) - 1)))."""
    if epsilon is None or problem.horizon < problem.arms:
        return None
    each = math.sqrt((problem.arms - 1) * problem.horizon / (2 * _cost(epsilon)))
    return Bounds(upper=math.inf, lower=problem.agents * each)


def federated(problem: Problem, epsilon: float | None) -> Bounds | None:
    """Theorem 6.5 for all of them together: sqrt(d n T / (epsilon (e^(2 epsilon) - 1)))."""
    if epsilon is None or problem.dim < 2:
        return None
    lower = math.sqrt(problem.dim * problem.agents * problem.horizon / _cost(epsilon))
    return Bounds(upper=math.inf, lower=lower)


def _cost(epsilon: float) -> float:
    return epsilon * math.expm1(2 * epsilon)
