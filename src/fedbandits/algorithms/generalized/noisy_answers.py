"""Global updates where agents answer with noise, and only so often (`channel.answering`).

Certificates are out of reach: noise of standard deviation s on a sum of gradients stays, however small the gradient.
But few rounds do. With the link's slopes between c and k the Hessian of the loss lies between c G and k G, G being the
gram matrix that agents hand over anyhow; steps by the inverse of B >= k G shrink what is left to find by 1 - c/k, a
fifth for clicks, in every direction in which B is not much larger than k G.
"""

from __future__ import annotations

import math

import numpy as np

from fedbandits.algorithms.generalized.parameters import Constants
from fedbandits.algorithms.generalized.servers import Method, Minimisation
from fedbandits.contract.arrays import FloatArray
from fedbandits.contract.facts import Answers, Perturbation
from fedbandits.contract.problem import Problem
from fedbandits.models.minimisers import averaged
from fedbandits.models.noisy_sums import RISK, reach
from fedbandits.models.objectives import Objective


def by_noisy_slopes(s: Constants, problem: Problem) -> Method | None:
    """Steps by B = k (G + N + c_N I) + lambda I + h I, G + N being the noisy gram matrix, c_N what N hardly reaches
    beyond and h = s sqrt(d)/S what keeps noise from stepping further than S; None where answers are exact.
    """
    told, sums = problem.get(Answers), problem.get(Perturbation)
    if told is None or sums is None:
        return None
    shift, held = reach(sums.matrix, s.d, RISK), _held(s, told)

    def step(objective: Objective, start: FloatArray, m: int, gram: FloatArray) -> Minimisation:
        scale = (s.k * _lifted(gram, shift) + (s.ridge + held) * np.eye(s.d)) / m
        return averaged(objective, start, scale=scale, rounds=told.rounds, radius=s.S)

    return step


def by_noisy_curvatures(s: Constants, problem: Problem) -> Method | None:
    """As above, with B = H + N + c_N I + h I from the noisy Hessian of each answer."""
    told = problem.get(Answers)
    if told is None:
        return None
    shift, held = reach(told.bend, s.d, RISK), _held(s, told)

    def step(objective: Objective, start: FloatArray, m: int, gram: FloatArray) -> Minimisation:
        def scale(hessian: FloatArray) -> FloatArray:
            return _lifted(hessian, shift / m) + held / m * np.eye(s.d)

        return averaged(objective, start, scale=scale, rounds=told.rounds, radius=s.S)

    return step


def _held(s: Constants, told: Answers) -> float:
    return told.slope * math.sqrt(s.d) / s.S


def _lifted(matrix: FloatArray, shift: float) -> FloatArray:
    """`matrix` + `shift` I, without what is negative nevertheless."""
    values, vectors = np.linalg.eigh(matrix)
    return np.asarray((vectors * np.maximum(values + shift, 0.0)) @ vectors.T)
