"""Features that are waves: cosines and sines of finitely many frequencies."""

from __future__ import annotations

import math

import numpy as np

from fedbandits.contract.arrays import FloatArray, IntArray
from fedbandits.linalg import kernels
from fedbandits.linalg.jit import jit
from fedbandits.linalg.simd import muladd
from fedbandits.models.features.features import Features


class WaveFeatures(Features):
    """phi(x) = [r_n cos(<omega_n, x>)]_n ++ [r_n sin(<omega_n, x>)]_n, and a constant where it is not 0.

    `frequencies` (N, d) are omega, `roots` (N,) r, the roots of weights. ||phi(x)||^2 is their sum whatever x is, and
    <phi(x), phi(y)> depends on x - y alone.
    """

    def __init__(self, frequencies: FloatArray, roots: FloatArray, constant: float = 0.0) -> None:
        self.dim = frequencies.shape[1]
        self.size = 2 * len(roots) + (constant > 0)
        self._frequencies = np.ascontiguousarray(frequencies)
        self._roots = roots
        self._constant = constant

    def of(self, who: IntArray, arms: FloatArray) -> FloatArray:
        """(w,), (w, K, d) -> (w, K, p): cosines, sines, and the constant where there is one."""
        lanes = kernels.aligned((len(arms), self.size, arms.shape[1]))
        _fill(kernels.as_lanes(arms), self._frequencies, self._roots, self._constant, lanes)
        return lanes.transpose(0, 2, 1)

    def slopes(self, who: IntArray, arms: FloatArray, along: FloatArray, reach: FloatArray) -> FloatArray:
        """See `Features`: sum_n r_n (v_n cos(<omega_n, x>) - u_n sin(<omega_n, x>)) omega_n, u being along cosines and
        v along sines.
        """
        out = np.zeros(arms.shape)
        _add_slopes(np.ascontiguousarray(arms), self._frequencies, self._roots, np.ascontiguousarray(along), out)
        return out


@jit
def _fill(arms: FloatArray, frequencies: FloatArray, roots: FloatArray, constant: float, out: FloatArray) -> None:
    """`arms` (w, d, K) -> `out` (w, p, K), number by number: no arm's features depend on what stands beside it."""
    waves, d = frequencies.shape
    for a in range(arms.shape[0]):
        for n in range(waves):
            for k in range(arms.shape[2]):
                phase = 0.0
                for j in range(d):
                    phase = muladd(frequencies[n, j], arms[a, j, k], phase)
                out[a, n, k] = roots[n] * math.cos(phase)
                out[a, waves + n, k] = roots[n] * math.sin(phase)
        for k in range(arms.shape[2]):
            if constant > 0:
                out[a, 2 * waves, k] = constant


@jit
def _add_slopes(
    arms: FloatArray, frequencies: FloatArray, roots: FloatArray, along: FloatArray, out: FloatArray
) -> None:
    """Add to `out` (w, K, d), all arrays having arms before coordinates."""
    waves, d = frequencies.shape
    for a in range(arms.shape[0]):
        for k in range(arms.shape[1]):
            for n in range(waves):
                phase = 0.0
                for j in range(d):
                    phase = muladd(frequencies[n, j], arms[a, k, j], phase)
                slope = along[a, k, waves + n] * math.cos(phase) - along[a, k, n] * math.sin(phase)
                for j in range(d):
                    out[a, k, j] += roots[n] * slope * frequencies[n, j]
