"""Nystrom features: the kernel as seen from the points of a dictionary.

With a dictionary S of M points and L L^T = K_SS + e I, L triangular and e as small as rounding allows,

    z(x) = L^-1 k_S(x),      <z(x), z(y)> = k_S(x)^T (K_SS + e I)^-1 k_S(y),

which is the kernel between the projections of x and y onto the span of S, and the kernel itself where one of them is in
S. Any root of K_SS does, as the symmetric one that Li, Wang, Wang & Wang (NeurIPS 2022) have; the triangular one is
unique, so that whoever knows S has the same features, and costs half as much. Points that are in S twice, or nearly,
do no harm.
"""

from __future__ import annotations

import numpy as np

from fedbandits.contract.arrays import FloatArray, IntArray
from fedbandits.linalg import kernels
from fedbandits.linalg.jit import jit, jit_part
from fedbandits.linalg.triangular import forward
from fedbandits.models.features.features import Features
from fedbandits.models.kernels import Kernel, cross

_SMALL = 1e-10
"""e, as a share of the largest k(x, x)."""


class NystromFeatures(Features):
    """The features above, of a `kernel` and a dictionary `points` (M, d).

    >>> import numpy as np
    >>> from fedbandits.models.kernels import SquaredExponential
    >>> features = NystromFeatures(SquaredExponential((1.0,)), np.array([[0.0], [1.0]]))
    >>> x, y = features.of(np.zeros(1, dtype=np.int64), np.array([[[0.0], [2.0]]]))[0]
    >>> round(float(x @ x), 6), round(float(x @ y), 6), round(float(np.exp(-2.0)), 6)
    (1.0, 0.135335, 0.135335)
    """

    def __init__(self, kernel: Kernel, points: FloatArray) -> None:
        self.kernel = kernel
        self.points = np.ascontiguousarray(points)
        self.dim, self.size = kernel.dim, len(points)
        self.rates = kernel.rates
        self.factor = packed_root(kernel.matrix(self.points, self.points), _SMALL * _largest(kernel, self.points))
        """(M (M + 1)/2,) the rows of L, one after the other."""

    def of(self, who: IntArray, arms: FloatArray) -> FloatArray:
        """(w,), (w, K, d) -> (w, K, M)."""
        found = kernels.aligned((len(arms), self.size, arms.shape[1]))
        _embed_all(self.kernel.code, self.rates, self.points, self.factor, kernels.as_lanes(arms), found)
        return found.transpose(0, 2, 1)


def packed_root(square: FloatArray, ridge: float) -> FloatArray:
    """(m, m) -> (m (m + 1)/2,) the rows of the Cholesky factor of square + ridge I, one after the other."""
    m = len(square)
    return np.asarray(np.linalg.cholesky(square + ridge * np.eye(m))[np.tril_indices(m)])


def _largest(kernel: Kernel, points: FloatArray) -> float:
    return float(kernel.diagonal(points).max(initial=np.finfo(np.float64).tiny))


@jit_part
def embed(
    code: int, rates: FloatArray, points: FloatArray, factor: FloatArray, lanes: FloatArray, out: FloatArray
) -> None:
    """`lanes` (d, K) -> `out` (M, K): the features of each, in columns."""
    cross(code, rates, points, len(points), lanes, out)
    forward(factor, len(points), out)


@jit
def _embed_all(
    code: int, rates: FloatArray, points: FloatArray, factor: FloatArray, lanes: FloatArray, out: FloatArray
) -> None:
    for a in range(len(lanes)):
        embed(code, rates, points, factor, lanes[a], out[a])
