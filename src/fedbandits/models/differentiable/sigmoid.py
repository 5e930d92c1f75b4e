"""A network of one hidden layer of sigmoids: the model of Li, Liu & Wang (ICLR 2024)."""

from __future__ import annotations

import math
from typing import Annotated, ClassVar

import numpy as np
from pydantic import Field

from fedbandits.contract.arrays import FloatArray, IntArray
from fedbandits.contract.parameters import parameters
from fedbandits.linalg.jit import jit, jit_part
from fedbandits.models.differentiable.model import AboutModel, Model
from fedbandits.models.observations import Observations


@parameters
class Sigmoid(Model):
    """f(x; w) = <v, s(W x + c)> + b, s(z) = 1 / (1 + e^-z), with `width` m hidden units.

    w is W (m x d) row by row, then c (m), v (m) and b: p = m (d + 2) + 1. With a = s(W x + c) and q = v a (1 - a),
    unit by unit, the gradient is (vec(q x^T), q, a, 1).

    >>> Sigmoid().parameters(6), Sigmoid().parameters(8)
    (201, 251)
    """

    width: Annotated[int, Field(ge=1)] = 25

    about: ClassVar[AboutModel] = AboutModel("sigmoid", "one hidden layer of sigmoids with biases")

    def parameters(self, dim: int) -> int:
        """See `Model`."""
        return self.width * (dim + 2) + 1

    def values(self, w: FloatArray, x: FloatArray) -> FloatArray:
        """See `Model`."""
        return np.asarray(self.outputs(w[None], _FIRST, x[None])[0])

    def gradients(self, w: FloatArray, x: FloatArray) -> FloatArray:
        """See `Model`."""
        return np.asarray(self.tangents(w[None], _FIRST, x[None])[0])

    def limits(self, norm: float, longest: float) -> tuple[float, float]:
        """See `Model`: units lie in [0, 1], and their slopes are at most 1/4."""
        units = self.width + 1
        return norm * math.sqrt(units), math.sqrt(norm**2 / 16 * (longest**2 + 1) + units)

    def outputs(self, theta: FloatArray, rows: IntArray, arms: FloatArray) -> FloatArray:
        """See `Model`."""
        out = np.empty(arms.shape[:2])
        _outputs(self.width, np.ascontiguousarray(theta), rows, np.array(arms), out)
        return out

    def tangents(self, theta: FloatArray, rows: IntArray, arms: FloatArray) -> FloatArray:
        """See `Model`."""
        out = np.empty((*arms.shape[:2], theta.shape[1]))
        _tangents(self.width, np.ascontiguousarray(theta), rows, np.array(arms), out)
        return out

    def inclines(
        self, theta: FloatArray, rows: IntArray, arms: FloatArray, along: FloatArray, reach: FloatArray
    ) -> FloatArray:
        """See `Model`. With u = (U, e, y, .) in the order of w, a' = a (1 - a) and a'' = a' (1 - 2 a), unit by unit:
        sum_j (a'_j (v_j + y_j) + a''_j v_j (<U_j, x> + e_j)) W_j + a'_j v_j U_j.
        """
        out = np.zeros(arms.shape)
        _inclines(self.width, np.ascontiguousarray(theta), rows, np.array(arms), np.ascontiguousarray(along), out)
        return out

    def slopes(self, theta: FloatArray, data: Observations, who: IntArray, end: IntArray) -> FloatArray:
        """See `Model`."""
        out = np.zeros((len(who), theta.shape[1]))
        _slopes(self.width, np.ascontiguousarray(theta), data.arms, data.rewards, who, end, out)
        return out


_FIRST = np.zeros(1, dtype=np.int64)


@jit_part
def _activate(width: int, w: FloatArray, x: FloatArray, units: FloatArray) -> float:
    """Fill `units` (m,) and return f at one x (d,)."""
    d = len(x)
    biases, weights = w[width * d :], w[width * (d + 1) :]
    total = float(w[width * (d + 2)])
    for j in range(width):
        z = biases[j]
        for i in range(d):
            z += w[j * d + i] * x[i]
        small = np.exp(-abs(z))
        units[j] = 1.0 / (1.0 + small) if z >= 0.0 else small / (1.0 + small)
        total += weights[j] * units[j]
    return total


@jit_part
def _add_gradient(width: int, w: FloatArray, x: FloatArray, units: FloatArray, weight: float, out: FloatArray) -> None:
    """Add `weight` times the gradient at x, of which `units` are known, to `out` (p,)."""
    d = len(x)
    for j in range(width):
        q = weight * w[width * (d + 1) + j] * units[j] * (1.0 - units[j])
        for i in range(d):
            out[j * d + i] += q * x[i]
        out[width * d + j] += q
        out[width * (d + 1) + j] += weight * units[j]
    out[width * (d + 2)] += weight


@jit
def _outputs(width: int, theta: FloatArray, rows: IntArray, arms: FloatArray, out: FloatArray) -> None:
    units = np.empty(width)
    for a in range(len(rows)):
        for k in range(arms.shape[1]):
            out[a, k] = _activate(width, theta[rows[a]], arms[a, k], units)


@jit
def _tangents(width: int, theta: FloatArray, rows: IntArray, arms: FloatArray, out: FloatArray) -> None:
    units = np.empty(width)
    for a in range(len(rows)):
        for k in range(arms.shape[1]):
            _activate(width, theta[rows[a]], arms[a, k], units)
            out[a, k] = 0.0
            _add_gradient(width, theta[rows[a]], arms[a, k], units, 1.0, out[a, k])


@jit
def _inclines(
    width: int, theta: FloatArray, rows: IntArray, arms: FloatArray, along: FloatArray, out: FloatArray
) -> None:
    units, d = np.empty(width), arms.shape[2]
    for a in range(len(rows)):
        w = theta[rows[a]]
        for k in range(arms.shape[1]):
            x, u = arms[a, k], along[a, k]
            _activate(width, w, x, units)
            for j in range(width):
                lean = u[width * d + j]
                for i in range(d):
                    lean += u[j * d + i] * x[i]
                weight, once = w[width * (d + 1) + j], units[j] * (1.0 - units[j])
                outer = once * (weight + u[width * (d + 1) + j] + (1.0 - 2.0 * units[j]) * weight * lean)
                for i in range(d):
                    out[a, k, i] += outer * w[j * d + i] + once * weight * u[j * d + i]


@jit
def _slopes(
    width: int,
    theta: FloatArray,
    arms: FloatArray,
    rewards: FloatArray,
    who: IntArray,
    end: IntArray,
    out: FloatArray,
) -> None:
    units, x = np.empty(width), np.empty(arms.shape[1])
    for a in range(len(who)):
        w = theta[a % len(theta)]
        for s in range(end[a]):
            x[:] = arms[who[a], :, s]
            gap = _activate(width, w, x, units) - rewards[who[a], s]
            _add_gradient(width, w, x, units, gap, out[a])
