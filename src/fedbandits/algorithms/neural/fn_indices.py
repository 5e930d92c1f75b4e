"""The index of FN-UCB over full matrices, in one compiled piece; see `algorithms.neural.fn_ucb`."""

from __future__ import annotations

import numpy as np

from fedbandits.contract.arrays import FloatArray, IntArray
from fedbandits.linalg.jit import jit, jit_part
from fedbandits.linalg.kernels import scores_optimistic
from fedbandits.models.networks.evaluation import gradients_into, outputs_into


@jit
def mixed_indices(
    sizes: IntArray,
    bias: int,
    scale: float,
    divisor: float,
    tangent: FloatArray,
    network: FloatArray,
    who: IntArray,
    lanes: FloatArray,
    alpha: FloatArray,
    inverse: FloatArray,
    theta: FloatArray,
    rows: IntArray,
    width_all: float,
    told: FloatArray,
    told_rows: IntArray,
    width_own: float,
) -> FloatArray:
    """(w, K) (1 - alpha) UCBa + alpha UCBb of arms as `lanes` (w, d, K), `alpha` being (w,).

    Features are gradients at `tangent` (n, p) over `divisor`, f that of `network` (n, p). UCBa is of `inverse` (m, p,
    p) and `theta` (m, p), in the given `rows` (w,); UCBb of all of `told` (m, N, p, p) in its `told_rows` (w,).
    """
    w, _, arms = lanes.shape
    phi, found = np.empty((w, tangent.shape[1], arms)), np.zeros((w, arms))
    gradients_into(sizes, bias, scale, tangent, who, lanes, phi)
    if divisor != 1.0:
        phi /= divisor
    if (alpha < 1.0).any():
        scores = shared_scores(inverse, theta, width_all, rows, phi)
        for a in range(w):
            for k in range(arms):
                found[a, k] += (1.0 - alpha[a]) * scores[a, k]
    if (alpha > 0.0).any():
        outputs, others = np.empty((w, arms)), told.shape[1]
        outputs_into(sizes, bias, scale, network, who, lanes, outputs)
        flat, nothing = told.reshape(-1, *told.shape[2:]), np.zeros((told.shape[0] * others, told.shape[2]))
        doubts = np.zeros((w, arms))
        for other in range(others):
            doubts += shared_scores(flat, nothing, 1.0, others * told_rows + other, phi)
        for a in range(w):
            for k in range(arms):
                found[a, k] += alpha[a] * (outputs[a, k] + width_own / others * doubts[a, k])
    return found


@jit_part
def shared_scores(
    inverse: FloatArray, theta: FloatArray, width: float, rows: IntArray, lanes: FloatArray
) -> FloatArray:
    """`kernels.scores_optimistic` with one width, whose arms stand side by side where all have the same row: a large
    matrix is then read once. Each arm's score has the same bits either way.
    """
    w, d, arms = lanes.shape
    if w == 1 or (rows != rows[0]).any():
        return scores_optimistic(inverse, theta, np.full(w, width), rows, lanes)
    beside = np.empty((1, d, w * arms))
    for a in range(w):
        for i in range(d):
            for k in range(arms):
                beside[0, i, a * arms + k] = lanes[a, i, k]
    return scores_optimistic(inverse, theta, np.full(1, width), rows[:1], beside).reshape(w, arms)
