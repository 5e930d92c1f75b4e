"""Two ways to tell what was observed of common candidates: in terms of a linearised model, or as it is.

Both are lossless, and agents believe the same after either. Statistics are p^2 + p numbers whatever the candidates;
tallies are two for each candidate whatever the model, and what the model is may then be anything at all.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
from scipy.linalg import solve_triangular

from fedbandits.algorithms.nonlinear.messages import TALLY, TOTALS
from fedbandits.contract.arrays import Array, FloatArray
from fedbandits.models.candidates import Belief, updated
from fedbandits.models.sharing import FRESH, POOL


@dataclass(frozen=True, slots=True, eq=False)
class Prior:
    """What a model says of the candidates: a `belief` about them before anything is observed, made with the `ridge`
    lambda; where it is that of a linearised model, with `features` (K, p). `unit` is what one unit of deviations is in
    rewards, and at least that where it `adapts` to what is observed.
    """

    belief: Belief
    features: FloatArray | None = None
    ridge: float = 1.0
    unit: float = 1.0
    adapts: bool = False


class Language(ABC):
    """`up` and `down` are the kinds of messages in which agents hand over, and are told."""

    up: str
    down: str

    @abstractmethod
    def said(self, prior: Callable[[], Prior], count: FloatArray, total: FloatArray) -> dict[str, FloatArray]:
        """What an agent says of `count` (K,) observations with rewards that sum up to `total` (K,), by field; one that
        has no model yet cannot be asked for its `prior`.
        """

    @abstractmethod
    def heard(self, prior: Prior, arrays: Mapping[str, Array]) -> tuple[Belief, float]:
        """What it believes when it is told that of everybody's, and the unit of deviations."""


class InStatistics(Language):
    """Sums of g g^T and (y - f) g."""

    up, down = FRESH.kind, POOL.kind

    def said(self, prior: Callable[[], Prior], count: FloatArray, total: FloatArray) -> dict[str, FloatArray]:
        """See `Language`."""
        features, offsets = prior().features, prior().belief.mean
        assert features is not None
        seen = np.flatnonzero(count)
        rows = np.sqrt(count[seen])[:, None] * features[seen]
        return {"gram": rows.T @ rows, "moment": (total[seen] - count[seen] * offsets[seen]) @ features[seen]}

    def heard(self, prior: Prior, arrays: Mapping[str, Array]) -> tuple[Belief, float]:
        """See `Language`."""
        assert prior.features is not None
        gram, moment = arrays["gram"], arrays["moment"]
        factor = np.linalg.cholesky(gram + prior.ridge * np.eye(len(gram)))
        shown = solve_triangular(factor, prior.features.T, lower=True)
        mean = prior.belief.mean + shown.T @ solve_triangular(factor, moment, lower=True)
        return Belief(mean, np.asarray(shown.T @ shown)), prior.unit


class InTallies(Language):
    """Counts and sums of rewards."""

    up, down = TALLY, TOTALS

    def said(self, prior: Callable[[], Prior], count: FloatArray, total: FloatArray) -> dict[str, FloatArray]:
        """See `Language`."""
        return {"count": count, "total": total}

    def heard(self, prior: Prior, arrays: Mapping[str, Array]) -> tuple[Belief, float]:
        """See `Language`. A unit that adapts is the most likely one, given everybody's observations, if it is larger:
        the square root of the misfit per candidate that was observed, in terms of the ridge.
        """
        count = np.array(arrays["count"])
        now = updated(prior.belief, count, np.array(arrays["total"]))
        if not prior.adapts:
            return now.belief, prior.unit
        observed = max(int(np.count_nonzero(count)), 1)
        return now.belief, max(prior.unit, math.sqrt(now.misfit / (prior.ridge * observed)))
