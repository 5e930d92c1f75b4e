"""G-optimal designs: how often to try each of a few directions, so that the worst estimate is as good as it can be."""

from __future__ import annotations

import numpy as np

from fedbandits.linalg.kernels import Floats

_RANK = 1e-9
"""Singular values below this share of the largest are zero: the arms lie in a subspace."""
_ROUNDS = 20_000


def g_optimal(arms: Floats, tolerance: float = 0.05) -> tuple[Floats, int]:
    """(K,) a design pi >= 0 with sum 1 over `arms` (K, d), and the dimension r of the space that they span.

        max over arms of a^T V(pi)^+ a <= (1 + tolerance) r,        V(pi) = sum pi(a) a a^T.

    No design is below r (Kiefer & Wolfowitz 1960), so that the bound is its own certificate. Found by Frank-Wolfe for
    log det V with away steps (Wolfe & Atwood; Todd & Yildirim 2007), from r arms of a pivoted QR decomposition on:
    weight goes to the arm with the largest a^T V^-1 a, or from the one of the support with the smallest, whichever is
    farther off r, each by the step that maximises log det V. The support stays small: it begins with r arms, each round
    adds one at most, and away steps drop those that are not needed.

    Arms of norm zero get nothing. Raises `ValueError` where there is no other arm.

    >>> weights, rank = g_optimal(np.array([[1.0, 0.0], [0.0, 1.0], [0.1, 0.1]]))
    >>> weights.round(2).tolist(), rank
    ([0.5, 0.5, 0.0], 2)
    """
    _, singular, axes = np.linalg.svd(arms, full_matrices=False)
    rank = int(np.count_nonzero(singular > _RANK * singular[0])) if len(singular) and singular[0] > 0 else 0
    if rank == 0:
        raise ValueError("arms: a design needs at least one arm that is not zero")
    points = arms @ (axes[:rank] / singular[:rank, None]).T  # of one scale in all directions
    weights = np.zeros(len(arms))
    weights[_spanning(points, rank)] = 1 / rank
    for _ in range(_ROUNDS):
        values = _squares(points, weights)
        most = int(values.argmax())
        if values[most] <= (1 + tolerance) * rank:
            break
        least = int(np.where(weights > 0, values, np.inf).argmin())
        away = rank - values[least] > values[most] - rank
        chosen = least if away else most
        step = _step(values[chosen], rank)
        if away:
            step = max(step, -weights[chosen] / (1 - weights[chosen]))
        weights *= 1 - step
        weights[chosen] = max(weights[chosen] + step, 0.0)
    return weights / weights.sum(), rank


def _squares(points: Floats, weights: Floats) -> Floats:
    """(K,) a^T V^-1 a."""
    information = (points * weights[:, None]).T @ points
    return np.asarray(np.einsum("kr,kr->k", points, np.linalg.solve(information, points.T).T))


def _step(value: float, rank: int) -> float:
    """The step towards an arm with a^T V^-1 a = `value` that maximises log det V; negative: away from it, as far as it
    goes where the maximum lies beyond.
    """
    return (value - rank) / (rank * (value - 1)) if value > 1 else -np.inf


def _spanning(points: Floats, rank: int) -> list[int]:
    """`rank` rows that span the space, each the longest once what lies along the earlier ones is taken out of it."""
    left = points.copy()
    chosen: list[int] = []
    for _ in range(rank):
        lengths = np.einsum("kr,kr->k", left, left)
        lengths[chosen] = -1.0
        chosen.append(int(lengths.argmax()))
        axis = left[chosen[-1]] / np.sqrt(lengths[chosen[-1]])
        left -= np.outer(left @ axis, axis)
    return chosen
