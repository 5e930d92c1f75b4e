"""Raw data for tests of the clustered family, and the homogeneity statistic computed from it by definition."""

from __future__ import annotations

import numpy as np

from fedbandits.algorithms.clustered.homogeneity import compare_pairs
from fedbandits.contract.arrays import FloatArray

FIRST, SECOND = np.array([0]), np.array([1])


def statistics(X: FloatArray, y: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Gram matrices and moments of designs (..., m, d) with responses (..., m)."""
    return np.swapaxes(X, -1, -2) @ X, np.einsum("...md,...m->...d", X, y)


def of_pair(one: tuple[FloatArray, FloatArray], two: tuple[FloatArray, FloatArray]) -> tuple[float, int]:
    """sigma^2 s and the degrees of freedom of a single pair, as the library computes them."""
    evidence = compare_pairs(np.stack([one[0], two[0]]), np.stack([one[1], two[1]]), FIRST, SECOND)
    return float(evidence.distance[0]), int(evidence.freedom[0])


def by_definition(X1: FloatArray, y1: FloatArray, X2: FloatArray, y2: FloatArray) -> tuple[float, int]:
    """sigma^2 s and the degrees of freedom from raw data: three least-squares fits."""
    both = np.vstack([X1, X2])
    t1, t2, t12 = (
        np.linalg.lstsq(X, y, rcond=None)[0] for X, y in ((X1, y1), (X2, y2), (both, np.concatenate([y1, y2])))
    )
    s = np.sum((X1 @ (t1 - t12)) ** 2) + np.sum((X2 @ (t2 - t12)) ** 2)
    return float(s), sum(map(int, map(np.linalg.matrix_rank, (X1, X2)))) - int(np.linalg.matrix_rank(both))


def parallel_sum(V1: FloatArray, V2: FloatArray) -> FloatArray:
    """V_1 (V_1 + V_2)^+ V_2, batched."""
    return V1 @ np.linalg.pinv(V1 + V2, hermitian=True) @ V2


def pairs_to_test(pairs: int) -> tuple[np.ndarray, np.ndarray]:
    """Agents 2p and 2p + 1 are pair p."""
    return np.arange(0, 2 * pairs, 2), np.arange(1, 2 * pairs, 2)
