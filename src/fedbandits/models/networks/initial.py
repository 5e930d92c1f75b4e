"""Where networks begin. Drawn from common randomness, so that a federation has one beginning without talking of it."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from fedbandits.contract.arrays import FloatArray
from fedbandits.models.networks.architecture import Architecture


def symmetric(network: Architecture, rng: np.random.Generator) -> FloatArray:
    """(p,) a network that is 0 wherever x_j = x_{j + d/2}, as theory has it (Dai et al., ICLR 2023, appendix B).

    W_l = [[W, 0], [0, W]] with entries N(0, 4/m), m the width of the layer, and last layer (w, -w) with entries
    N(0, 2/m). All widths and d are even, and there are no biases. With m the width of all layers and a `scale` of
    sqrt(m), gradients over sqrt(m) have a squared norm of 2 on average, for one hidden layer and x of unit norm.
    """
    if network.biased or network.inputs % 2 or any(width % 2 for width in network.hidden):
        raise ValueError(f"a symmetric network has even widths and no biases, not {network}")
    theta = np.zeros(network.parameters)
    *inner, last = network.matrices(theta)
    for matrix in inner:
        height, width = matrix.shape[0] // 2, matrix.shape[1] // 2
        block = np.sqrt(4 / matrix.shape[0]) * rng.standard_normal((height, width))
        matrix[:height, :width] = matrix[height:, width:] = block
    half = last.shape[1] // 2
    last[0, :half] = np.sqrt(2 / last.shape[1]) * rng.standard_normal(half)
    last[0, half:] = -last[0, :half]
    return theta


def gaussian(
    network: Architecture, rng: np.random.Generator, deviations: Sequence[float], *, last_bias: bool = True
) -> FloatArray:
    """(p,) independent normals: those of layer l, biases included, have the l-th of the `deviations`, those of the last
    layer the last. Without `last_bias` that one begins at 0.
    """
    theta = np.zeros(network.parameters)
    for matrix, deviation in zip(network.matrices(theta), deviations, strict=True):
        matrix[:] = deviation * rng.standard_normal(matrix.shape)
    if network.biased and not last_bias:
        theta[-1] = 0.0
    return theta
