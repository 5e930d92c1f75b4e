"""Widths of confidence ellipsoids for generalized linear models (Li & Wang), and of those of its baselines."""

from __future__ import annotations

import numpy as np

from fedbandits.algorithms.generalized.parameters import Constants
from fedbandits.contract.arrays import FloatArray


def offline(s: Constants, m: FloatArray) -> FloatArray:
    """W of lemma 9: how far the global minimiser from m observations, certified to 1/m^2, may be off. Shapes (w,).

    sqrt(2k/(lambda c) + 2/(mc)) + (R/c) sqrt(d log(1 + mc/(d lambda)) + 2 log(1/delta)) + sqrt(lambda/c) S
    """
    some = np.maximum(m, 1)
    inexact = np.sqrt(2 * s.k / (s.ridge * s.c) + 2 / (some * s.c))
    noise = s.R / s.c * np.sqrt(s.d * np.log1p(some * s.c / (s.d * s.ridge)) + 2 * np.log(1 / s.delta))
    prior = np.sqrt(s.ridge / s.c) * s.S
    return np.asarray(np.where(m > 0, inexact + noise + prior, prior))


def global_part(s: Constants, m: FloatArray, logdet: FloatArray, norm: FloatArray) -> FloatArray:
    """beta of the global update in lemma 2: m observations with log det(I + gram) `logdet`, estimate of norm `norm`."""
    l1 = np.log(1 / s.delta) + 0.5 * logdet
    b1 = 1 / np.maximum(m, 1) + s.ridge / 2 * s.S**2
    beta = 8 * s.R**2 / s.c**2 * l1 + b1
    beta = beta + 4 * s.R / s.c * np.sqrt(2 * l1) * (norm + s.S + np.sqrt(b1))
    return np.asarray(np.where(m > 0, beta, 0.0))


def local_part(s: Constants, b2: FloatArray) -> FloatArray:
    """beta of the local online Newton steps in lemma 2, whose regret is at most `b2`."""
    root = np.sqrt(4 + 8 * b2 / s.c + 64 * s.R**4 / (4 * s.c**4 * s.delta**2))
    return np.asarray(1 + 4 * b2 / s.c + 8 * s.R**2 / s.c**2 * np.log(s.N / s.delta * root))


def online(s: Constants, b: FloatArray) -> FloatArray:
    """beta of GLOC (Jun et al. 2017) for one agent alone, whose online regret is at most `b`."""
    root = np.sqrt(1 + 2 * b / s.c + 4 * s.R**4 / (s.c**4 * s.delta**2))
    return np.asarray(1 + 4 * b / s.c + 8 * s.R**2 / s.c**2 * np.log(2 / s.delta * root))


def ucb_glm(s: Constants, horizon: int) -> float:
    """alpha of UCB-GLM (Li, Lu & Zhou 2017): (R/c) sqrt((d/2) log(1 + 2T/d) + log(1/delta))."""
    return float(s.R / s.c * np.sqrt(s.d / 2 * np.log1p(2 * horizon / s.d) + np.log(1 / s.delta)))
