"""Where in a confidence ellipsoid an arm is worth most: theta + width V^-1 x / ||x||_{V^-1}."""

from __future__ import annotations

import math

import numpy as np

from fedbandits.linalg.jit import jit, jit_part
from fedbandits.linalg.kernels import Floats, Ints, check_who, dot, product
from fedbandits.linalg.simd import address, target


@jit_part
def _leaning_into(
    inverse: Floats, theta: Floats, width: Floats, who: Ints, arms: Floats, values: Floats, along: Floats
) -> None:
    w, count, d = arms.shape
    for a in range(w):
        i = who[a]
        for k in range(count):
            place = (a * count + k) * d
            x, out = address(arms, place), target(along, place)
            product(address(inverse, i * d * d), x, d, out)
            reach = math.sqrt(max(dot(x, out, d), 0.0))
            scale = width[a] / reach if reach > 0.0 else 0.0
            values[a, k] = dot(x, address(theta, i * d), d) + width[a] * reach
            for j in range(d):
                along[a, k, j] = theta[i, j] + scale * along[a, k, j]


@jit
def leaning(inverse: Floats, theta: Floats, width: Floats, who: Ints, arms: Floats) -> tuple[Floats, Floats]:
    """The value <theta, x> + width ||x||_{V^-1} of each arm (w, K), and the parameter (w, K, d) at which it is worth
    that; theta itself where x is 0.

    Shapes: inverse V^-1 (n, d, d), theta (n, d), width (w,), who (w,), arms (w, K, d). Agent by agent, arm by arm.
    """
    w, count, d = arms.shape
    if inverse.shape[1] != d or inverse.shape[2] != d or theta.shape[1] != d or theta.shape[0] != inverse.shape[0]:
        raise ValueError("arms and models differ in dimension")
    if who.shape[0] != w or width.shape[0] != w:
        raise ValueError("one agent and one width are needed for each row of arms")
    check_who(inverse.shape[0], who)
    values, along = np.empty((w, count)), np.empty((w, count, d))
    _leaning_into(inverse, theta, width, who, arms, values, along)
    return values, along
