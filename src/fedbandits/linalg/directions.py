"""Normal numbers to unit vectors, as lanes: sums stay in registers, and no product is fused, as in `linalg.hashed`."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fedbandits.linalg.jit import jit_inside
from fedbandits.linalg.simd import Address, Value, add, address, load, mul, over, root, store, target, zero

Floats = NDArray[np.float64]


@jit_inside
def _unit_tile(
    none: Value, normals: Address, scale: Address, theta: Address, d: int, arms: int, lanes: Address, means: Address
) -> None:
    """s z / |s z| and <theta, .> of it, for as many columns z as `none` has lanes."""
    square = none
    score = none
    for j in range(d):
        x = mul(load(0.0, scale, j), load(none, normals, j * arms))
        square = add(square, mul(x, x))
        score = add(score, mul(load(0.0, theta, j), x))
    weight = over(1.0, root(square))
    store(means, 0, mul(score, weight))
    for j in range(d):
        store(lanes, j * arms, mul(mul(load(0.0, scale, j), load(none, normals, j * arms)), weight))


@jit_inside
def unit_lanes(normals: Floats, scale: Floats, theta: Floats, own: int, lanes: Floats, means: Floats, row: int) -> None:
    """Write the K columns of s z / |s z| into `lanes[row]` (d, K), and <theta[own], .> of them into `means[row]` (K,).

    `normals` are the d K numbers z, and `scale` (d,) is s, taken coordinate by coordinate. Nothing is checked.
    """
    _, d, arms = lanes.shape
    z, s, t = address(normals, 0), address(scale, 0), address(theta, own * d)
    m, x = target(means, row * arms), target(lanes, row * d * arms)
    k = 0
    while k < arms:
        left = arms - k
        # the last tile is moved back to overlap its predecessor rather than be cut
        if arms >= 12 and left > 8:
            k = min(k, arms - 12)
            _unit_tile(zero(3), address(z, k), s, t, d, arms, address(x, k), address(m, k))
            k += 12
        elif arms >= 8 and left > 4:
            k = min(k, arms - 8)
            _unit_tile(zero(2), address(z, k), s, t, d, arms, address(x, k), address(m, k))
            k += 8
        elif arms >= 4:
            k = min(k, arms - 4)
            _unit_tile(zero(1), address(z, k), s, t, d, arms, address(x, k), address(m, k))
            k += 4
        else:
            _unit_tile(0.0, address(z, k), s, t, d, arms, address(x, k), address(m, k))
            k += 1
