"""Means and widths of the armed family by their definitions, from the list of samples, with numpy and nothing else."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.optimize import brentq

from fedbandits.contract.facts import Moment, Noise
from fedbandits.contract.problem import Problem


def moments(algorithm: Any, problem: Problem) -> tuple[float, float, float]:
    """Order p = 1 + eps, raw bound u and central bound v: as given, or of the problem."""
    known = problem.get(Moment)
    order = algorithm.order if algorithm.order is not None else known.order if known else 2.0
    raw = algorithm.raw if algorithm.raw is not None else known.raw if known else np.nan
    central = (
        algorithm.central
        if algorithm.central is not None
        else known.central
        if known
        else problem.get(Noise, Noise()).sigma ** 2
    )
    return order, raw, central


def empirical(x, t, algorithm, problem):
    return x.mean(), np.sqrt(algorithm.exploration * np.log(t) / len(x))


def trimmed(x, t, algorithm, problem):
    p, u, _ = moments(algorithm, problem)
    index = np.arange(1, len(x) + 1)
    with np.errstate(divide="ignore"):
        threshold = (u * index / (2 * np.log(t))) ** (1 / p)
    kept = np.where(np.abs(x) <= threshold, x, 0.0)
    return kept.mean(), 4 * u ** (1 / p) * (2 * np.log(t) / len(x)) ** ((p - 1) / p)


def median_of_means(x, t, algorithm, problem):
    p, _, v = moments(algorithm, problem)
    level = 1 / 8 + 2 * np.log(t)
    k = max(1, int(np.floor(min(8 * level, len(x) / 2))))
    size = len(x) // k
    blocks = x[: k * size].reshape(k, size).mean(axis=1)
    return np.median(blocks), (12 * v) ** (1 / p) * (16 * level / len(x)) ** ((p - 1) / p)


def catoni(x, t, algorithm, problem):
    _, _, v = moments(algorithm, problem)
    n = len(x)
    width = 2 * np.sqrt(2 * v * np.log(t) / n)
    level = min(2 * np.log(t), n / 4)
    alpha = np.sqrt(2 * level / (n * (v + 2 * v * level / (n - 2 * level))))

    def influence(theta):
        y = alpha * (x - theta)
        return np.sum(np.sign(y) * np.log1p(np.abs(y) + y**2 / 2))

    return brentq(influence, x.min() - 1, x.max() + 1, xtol=1e-13), width


def shortest_interval(x, t, algorithm, problem):
    n, level, eps = len(x), 2 * np.log(t), algorithm.contaminated(problem)
    sigma = np.sqrt(moments(algorithm, problem)[2])
    width = sigma * np.sqrt(eps) + sigma * np.sqrt(level / n)
    first, second = x[0::2], np.sort(x[1::2])
    N = n // 2
    if N > 0:
        alpha = max(eps, level / N)
        spread = level + np.log(4)
        h = int(np.ceil(N * (1 - 2 * alpha - np.sqrt(2 * alpha * spread / N) - spread / N)))
        if 2 * h > N:
            lengths = second[h - 1 :] - second[: N - h + 1]
            at = int(lengths.argmin())
            inside = first[:N][(first[:N] >= second[at]) & (first[:N] <= second[at + h - 1])]
            if len(inside):
                return inside.mean(), width
    return np.median(x), width


MEANS = {
    "empirical": empirical,
    "trimmed": trimmed,
    "median-of-means": median_of_means,
    "catoni": catoni,
    "shortest-interval": shortest_interval,
}
