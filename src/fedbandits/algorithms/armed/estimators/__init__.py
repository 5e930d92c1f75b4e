"""Estimators of the means of K arms: each one module, all behind one contract.

An algorithm inherits the parameters (`Estimation`), builds an estimator from them (`estimator_for`), hands it samples,
and asks for estimates and the half-widths of their confidence intervals at confidence 1 - 1/t^2.
"""

from __future__ import annotations

from collections.abc import Callable

from fedbandits.algorithms.armed.estimators.catoni import CatoniMean
from fedbandits.algorithms.armed.estimators.contract import Estimator
from fedbandits.algorithms.armed.estimators.empirical import EmpiricalMean
from fedbandits.algorithms.armed.estimators.median_of_means import MedianOfMeans
from fedbandits.algorithms.armed.estimators.parameters import Estimation, MeanName
from fedbandits.algorithms.armed.estimators.shortest_interval import ShortestIntervalMean
from fedbandits.algorithms.armed.estimators.trimmed import PrintedTrimmedMean, TrimmedMean
from fedbandits.contract.problem import Problem

__all__ = ["ESTIMATORS", "EmpiricalMean", "Estimation", "Estimator", "MeanName", "estimator_for"]


def _trimmed(parameters: Estimation, problem: Problem, n: int) -> Estimator:
    kind = TrimmedMean if parameters.threshold == "definition" else PrintedTrimmedMean
    return kind.of(parameters, problem, n)


ESTIMATORS: dict[MeanName, Callable[[Estimation, Problem, int], Estimator]] = {
    "empirical": EmpiricalMean.of,
    "trimmed": _trimmed,
    "median-of-means": MedianOfMeans.of,
    "catoni": CatoniMean.of,
    "shortest-interval": ShortestIntervalMean.of,
}


def estimator_for(parameters: Estimation, problem: Problem, n: int) -> Estimator:
    """The estimator that `parameters` ask for, for n agents of `problem` who have no sample yet."""
    return ESTIMATORS[parameters.mean](parameters, problem, n)
