"""What theory says of group regret, evaluated on an instance: the theorems' expressions, to be held against runs.

Upper bounds (theorems 2.2, 4.1 to 4.3 and the pseudocode's constants) are of the form

    groups * sum_k Delta_k n_k + extra * sum_k Delta_k,

where n_k is the number of samples after which the width at the horizon is half the gap Delta_k (8 log T / Delta_k^2
for UCB1), `groups` the number of sets of agents that learn as one, and `extra` what delays and first pulls cost. Lower
bounds are asymptotic, hence no bounds at any given horizon: sum_k log T Delta_k / KL_k for any consistent policy
(theorem 2.3), times the number of agents that are too far apart to share anything for policies in which nobody explores
for the sake of others (theorem 2.4).
"""

from __future__ import annotations

from weakref import WeakKeyDictionary

import networkx as nx
import numpy as np
from scipy.special import rel_entr

from fedbandits.algorithms.armed.estimators import Estimation, estimator_for
from fedbandits.contract.arrays import FloatArray
from fedbandits.contract.facts import Moment, Noise, Place, Range
from fedbandits.contract.problem import Problem
from fedbandits.graphs.hops import power_graph
from fedbandits.graphs.leaders import clique_of, leadership
from fedbandits.graphs.structure import independent_set

_LARGEST_SAMPLE = 2**60


def gaps_of(means: FloatArray) -> FloatArray:
    """The positive gaps between the best mean and the others."""
    gaps = means.max() - means
    return np.asarray(gaps[gaps > 0])


def upper_bound(estimation: Estimation, problem: Problem, means: FloatArray, groups: float, extra: float) -> float:
    """groups * sum_k Delta_k n_k + extra * sum_k Delta_k; see the module."""
    gaps = gaps_of(means)
    needed = np.array([samples_needed(estimation, problem, gap) for gap in gaps])
    return float(groups * (gaps * needed).sum() + extra * gaps.sum())


def samples_needed(estimation: Estimation, problem: Problem, gap: float) -> float:
    """The samples after which the width at the horizon is at most half of `gap`; infinite if that never happens."""
    estimator = estimator_for(estimation, problem, 1)
    horizon = np.array([problem.horizon])

    def narrow(count: int) -> bool:
        counts = np.full((1, problem.arms), count)
        return bool(estimator.widths(counts, horizon)[0, 0] <= gap / 2)

    if not narrow(_LARGEST_SAMPLE):
        return float("inf")
    low, high = 0, _LARGEST_SAMPLE
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if narrow(middle) else (middle, high)
    return float(high)


def lower_bound(problem: Problem, means: FloatArray, agents: float = 1.0) -> float:
    """agents * sum_k log T Delta_k / KL_k for Bernoulli rewards (range [0, 1]) or Gaussian ones; 0 for heavy tails."""
    if problem.get(Moment) is not None:
        return 0.0
    best, others = means.max(), means[means < means.max()]
    if problem.get(Range) == Range(0.0, 1.0):
        divergence = rel_entr(others, best) + rel_entr(1 - others, 1 - best)
    else:
        divergence = (best - others) ** 2 / (2 * problem.get(Noise, Noise()).sigma ** 2)
    return float(agents * np.log(problem.horizon) * ((best - others) / divergence).sum())


def clique_count(place: Place) -> int:
    """The size of the clique cover of G_gamma that was found: at least the clique cover number."""
    return int(clique_of(place.graph, place.hops).max()) + 1


def domination(place: Place) -> int:
    """How many leaders were found to dominate G_gamma: at least the domination number."""
    return len(np.unique(leadership(place.graph, place.hops).leader))


def strangers(place: Place) -> int:
    """How many agents were found that are pairwise more than 2 gamma hops apart: whose neighbourhoods are disjoint.

    The theorem says gamma + 1; its proof needs disjoint neighbourhoods, which is the same for gamma = 1 alone.
    """
    held = _STRANGERS.setdefault(place.graph, {})
    if place.hops not in held:
        held[place.hops] = independent_set(power_graph(place.graph, 2 * place.hops)).size
    return held[place.hops]


_STRANGERS: WeakKeyDictionary[nx.Graph[int], dict[int, int]] = WeakKeyDictionary()
