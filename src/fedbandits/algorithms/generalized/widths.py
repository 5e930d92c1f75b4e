"""Widths of confidence ellipsoids for generalized linear models (Li & Wang), and of those of its baselines."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from fedbandits.algorithms.generalized.parameters import Constants
from fedbandits.contract.arrays import FloatArray
from fedbandits.linalg.jit import jit, jit_part


def offline(s: Constants, m: FloatArray) -> FloatArray:
    """W of lemma 9: how far the global minimiser from m observations, certified to 1/m^2, may be off. Shapes (w,).

    sqrt(2k/(lambda c) + 2/(mc)) + (R/c) sqrt(d log(1 + mc/(d lambda)) + 2 log(1/delta)) + sqrt(lambda/c) S

    and what noise in answers adds (`by_noise`).
    """
    some = np.maximum(m, 1)
    inexact = np.sqrt(2 * s.k / (s.ridge * s.c) + 2 / (some * s.c))
    noise = s.R / s.c * np.sqrt(s.d * np.log1p(some * s.c / (s.d * s.ridge)) + 2 * np.log(1 / s.delta))
    prior = np.sqrt(s.ridge / s.c) * s.S
    return np.asarray(np.where(m > 0, inexact + noise + prior + by_noise(s), prior))


def global_part(s: Constants, m: FloatArray, logdet: FloatArray, norm: FloatArray) -> FloatArray:
    """beta of the global update in lemma 2: m observations with log det(I + gram) `logdet`, estimate of norm `norm`."""
    l1 = np.log(1 / s.delta) + 0.5 * logdet
    b1 = 1 / np.maximum(m, 1) + s.ridge / 2 * s.S**2
    beta = 8 * s.R**2 / s.c**2 * l1 + b1
    beta = beta + 4 * s.R / s.c * np.sqrt(2 * l1) * (norm + s.S + np.sqrt(b1))
    beta = (np.sqrt(beta) + by_noise(s)) ** 2 if s.answered else beta
    return np.asarray(np.where(m > 0, beta, 0.0))


def by_noise(s: Constants) -> float:
    """(R/c) (sqrt(d) + sqrt(2 log(1/delta))): how much further the estimate may be off, in the norm of the gram matrix
    as it is read, where answers carry noise; 0 where they do not.

    With noise xi on the sum of gradients the estimate moves by H^-1 xi, H >= c G. Gram matrices are read as
    K = G (G + q I)^-1 G, R^2 q being at least the variance of an entry of xi (`models.noisy_sums`), so that
    ||H^-1 xi||_K <= ||xi||/(c sqrt(q)), which is what a Gaussian vector keeps to. That leaves out what a fixed number
    of rounds has not found, which nobody can certify: with noise, confidence sets are not proved to hold.
    """
    return s.R / s.c * (float(np.sqrt(s.d)) + float(np.sqrt(2 * np.log(1 / s.delta)))) if s.answered else 0.0


class StepsPart(NamedTuple):
    """What online Newton steps add to beta: 1 + 4b/c + factor log(front sqrt(first + slope b)), b bounding their
    regret. Compiled loops take it as it is.
    """

    c: float
    factor: float
    front: float
    first: float
    slope: float

    def __call__(self, regret: FloatArray) -> FloatArray:
        """beta for bounds on the regret, of any shape."""
        bounds = np.asarray(regret, dtype=np.float64)
        return _parts(self, bounds.ravel()).reshape(bounds.shape)


def local_steps(s: Constants) -> StepsPart:
    """Of lemma 2, between global updates."""
    return StepsPart(s.c, 8 * s.R**2 / s.c**2, s.N / s.delta, 4 + 64 * s.R**4 / (4 * s.c**4 * s.delta**2), 8 / s.c)


def online_steps(s: Constants) -> StepsPart:
    """Of GLOC (Jun et al. 2017), for one agent alone."""
    return StepsPart(s.c, 8 * s.R**2 / s.c**2, 2 / s.delta, 1 + 4 * s.R**4 / (s.c**4 * s.delta**2), 2 / s.c)


def local_part(s: Constants, b2: FloatArray) -> FloatArray:
    """beta of the local online Newton steps in lemma 2, whose regret is at most `b2`."""
    return local_steps(s)(b2)


@jit_part
def part_at(part: StepsPart, regret: float) -> float:
    """What steps whose regret is at most `regret` add to beta."""
    found: float = (
        1 + 4 * regret / part.c + part.factor * math.log(part.front * math.sqrt(part.first + part.slope * regret))
    )
    return found


@jit
def _parts(part: StepsPart, regret: FloatArray) -> FloatArray:
    out = np.empty(len(regret))
    for a in range(len(regret)):
        out[a] = part_at(part, regret[a])
    return out


def ucb_glm(s: Constants, horizon: int) -> float:
    """alpha of UCB-GLM (Li, Lu & Zhou 2017): (R/c) sqrt((d/2) log(1 + 2T/d) + log(1/delta)); see `by_noise`."""
    return float(s.R / s.c * np.sqrt(s.d / 2 * np.log1p(2 * horizon / s.d) + np.log(1 / s.delta))) + by_noise(s)
