"""The tangent kernel of infinitely wide networks, and the constants that theory makes of it.

With L layers of weights, rectifiers in between and no biases, S_1 = H_1 = [<x_i, x_j>] and, for l = 1 .. L - 1,

    S_{l+1} = 2 E max(u, 0) max(v, 0),      H_{l+1} = 2 H_l E 1[u > 0] 1[v > 0] + S_{l+1},

(u, v) being normal with the covariances that S_l has for the two points. Both means are known in closed form (Cho &
Saul 2009): with psi the angle between them, cos psi = S_ij / sqrt(S_ii S_jj),

    S_{l+1} = sqrt(S_ii S_jj) (sin psi + (pi - psi) cos psi) / pi,      2 E 1[u > 0] 1[v > 0] = (pi - psi) / pi.

H_L is what inner products of tangent features (`features.tangent`), with a symmetric beginning and contexts whose
halves are the same, tend to as the network becomes wider. Publications on neural bandits (Zhou, Li & Gu, ICML 2020; Dai
et al., ICLR 2023) state their theorems with H = (H_L + S_L) / 2.
"""

from __future__ import annotations

import math

import numpy as np
from scipy.linalg import cho_factor, cho_solve

from fedbandits.contract.arrays import FloatArray


def tangent_kernel(points: FloatArray, layers: int) -> tuple[FloatArray, FloatArray]:
    """(n, d) -> H_L and S_L, (n, n) each, for L = `layers` >= 2 layers of weights: one hidden layer is L = 2.

    >>> import numpy as np
    >>> tangent, covariance = tangent_kernel(np.array([[1.0, 0.0], [-1.0, 0.0]]), layers=2)
    >>> tangent.round(12).tolist(), covariance.round(12).tolist()
    ([[2.0, 0.0], [0.0, 2.0]], [[1.0, 0.0], [0.0, 1.0]])
    """
    if layers < 2:
        raise ValueError(f"layers must be at least 2, one of them hidden (got {layers})")
    covariance = points @ points.T
    tangent = covariance
    lengths = np.sqrt(np.diag(covariance))  # which stay as they are from layer to layer
    products = np.outer(lengths, lengths)
    for _ in range(layers - 1):
        cosine = np.divide(covariance, products, out=np.zeros_like(products), where=products > 0)
        np.fill_diagonal(cosine, 1.0)
        cosine = np.clip(cosine, -1.0, 1.0)
        angle = np.arccos(cosine)
        covariance = products * (np.sqrt(1 - cosine**2) + (np.pi - angle) * cosine) / np.pi
        tangent = tangent * (np.pi - angle) / np.pi + covariance
    return tangent, covariance


def published_kernel(points: FloatArray, layers: int) -> FloatArray:
    """(n, d) -> (n, n) H = (H_L + S_L) / 2."""
    tangent, covariance = tangent_kernel(points, layers)
    return np.asarray((tangent + covariance) / 2)


def effective_dimension(kernel: FloatArray, ridge: float) -> float:
    """d~ = log det(I + H/lambda) / log(1 + n/lambda), `kernel` being H (n, n): of how many directions there is more to
    know than the ridge allows for. n are the contexts of all turns, arms and agents, or of one agent, or a sample.
    """
    n = len(kernel)
    factor = np.linalg.cholesky(np.eye(n) + kernel / ridge)
    return float(2 * np.log(np.diag(factor)).sum() / math.log1p(n / ridge))


def norm_bound(kernel: FloatArray, means: FloatArray) -> float:
    """B = sqrt(2 h^T H^-1 h) for the mean rewards h (n,) of the contexts of `kernel` H (n, n)."""
    return math.sqrt(2 * float(means @ cho_solve(cho_factor(kernel, lower=True), means)))


def exploration(
    *, bound: float, noise: float, delta: float, dimension: float, contexts: int, ridge: float, agents: int = 1
) -> float:
    """nu = B + R sqrt(2 (log(3n/delta) + 1) + d~ log(1 + m/lambda)), m being how many `contexts` there are.

    Dai et al., theorem 1: nu_TKN, for everybody's statistics, with n = 1, all TKN contexts and their d~; nu_TK, for
    those of one agent, with n `agents`, its TK contexts and the largest d~ of an agent.
    """
    confidence = 2 * (math.log(3 * agents / delta) + 1)
    return bound + noise * math.sqrt(confidence + dimension * math.log1p(contexts / ridge))


def training(
    *, horizon: int, layers: int, width: int, ridge: float, agents: int, c2: float = 1.0, c4: float = 1.0
) -> tuple[float, int]:
    """eta = C4 / (m lambda + m T L) and J = (1 + T L / lambda) log(3 C2 n sqrt(T^3 L / lambda)) / C4, rounded up: the
    rate and the number of steps of theorem 1, constants C2 > 0 and C4 <= 1 + T L being unknown.

    As printed, J has the logarithm of the reciprocal, which is negative. Nobody has trained with these numbers: at
    T = 1000, L = 2 and lambda = 1 they are 25,000 steps after every observation.
    """
    rate = c4 / (width * ridge + width * horizon * layers)
    steps = (1 + horizon * layers / ridge) * math.log(3 * c2 * agents * math.sqrt(horizon**3 * layers / ridge)) / c4
    return rate, math.ceil(steps)
