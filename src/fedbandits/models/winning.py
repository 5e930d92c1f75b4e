"""The chance of each arm to win where agents draw a value for every arm and take the highest: Thompson sampling.

Nothing here draws from an agent's stream: chances are computed, to the accuracy that each function states.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache

import numpy as np
from scipy.special import ndtr, ndtri

from fedbandits.contract.arrays import FloatArray

_POINTS = 2048
_NODES = 512
_FEWEST_LEVELS = 8
_TAIL = 1e-6


def winning_jointly(means: FloatArray, factors: FloatArray) -> FloatArray:
    """(K,) with which probability arm k has the highest of the values m + F z, z ~ N(0, I): means m (K,), F (K, d).

    A mean over 2048 points of a Sobol' sequence, the same ones each time; measured errors stay below 0.01. No chance is
    0: half a point is added to each arm, so that whoever divides by a chance can.
    """
    values = means + normal_points(factors.shape[1]) @ factors.T
    wins = np.bincount(values.argmax(axis=1), minlength=len(means))
    return np.asarray((wins + 0.5) / (_POINTS + 0.5 * len(means)))


@lru_cache(maxsize=8)
def normal_points(dim: int) -> FloatArray:
    """(2048, d) points that fill N(0, I) evenly."""
    from scipy.stats import qmc  # slow to load, and seldom needed

    drawn = qmc.Sobol(dim, scramble=True, rng=np.random.default_rng(0)).random(_POINTS)
    return np.asarray(ndtri(np.clip(drawn, 1e-12, 1 - 1e-12)))


def winning_independently(
    cdf: Callable[[FloatArray], FloatArray], quantile: Callable[[FloatArray], FloatArray], arms: int
) -> FloatArray:
    """(K,) with which probability arm k has the highest of K independent values of continuous laws F_k.

    `cdf` maps x (m,) to F_k(x) (m, K), `quantile` maps levels (m,) to F_k^-1(level) (m, K). The chance of arm k is the
    integral of prod_{j != k} F_j dF_k, by the trapezoidal rule on quantiles of those arms that can win at all: errors
    stay below 0.01 and fall with the number of nodes per arm, at least 8 and about 512 in all.
    """
    low, high = quantile(np.array([_TAIL, 1 - _TAIL]))
    contenders = high >= low.max()
    levels = max(_NODES // int(contenders.sum()), _FEWEST_LEVELS)
    inner = quantile(np.linspace(0, 1, levels + 2)[1:-1])[:, contenders]
    nodes = np.unique(np.concatenate([[low.max(), high.max()], inner.ravel()]))
    nodes = nodes[(nodes >= low.max()) & (nodes <= high.max())]
    below = cdf(nodes)
    others = np.empty_like(below)
    for arm in range(arms):  # products, not quotients: a distribution function may be 0
        others[:, arm] = np.delete(below, arm, axis=1).prod(axis=1)
    found = (np.diff(below, axis=0) * (others[1:] + others[:-1]) / 2).sum(axis=0)
    found = np.maximum(found, _TAIL / arms)
    return np.asarray(found / found.sum())


def winning_normally(means: FloatArray, deviations: FloatArray) -> FloatArray:
    """(w, K) with which probability arm k has the highest of K independent draws from N(means, deviations^2), (w, K)
    each, in every row; see `winning_independently`.
    """
    return np.stack(
        [
            winning_independently(
                lambda x, m=m, s=s: ndtr((x[:, None] - m) / s),  # type: ignore[misc]
                lambda level, m=m, s=s: m + s * np.asarray(ndtri(level))[:, None],  # type: ignore[misc]
                len(m),
            )
            for m, s in zip(means, deviations, strict=True)
        ]
    )
