"""Agents that act on exact processes, by optimism or by sampling: what algorithms on kernels have in common."""

from __future__ import annotations

from abc import abstractmethod
from typing import ClassVar, Protocol

import numpy as np

from fedbandits.contract.arrays import FloatArray, IntArray, check_arms, check_feedback, check_finite
from fedbandits.contract.streams import Streams
from fedbandits.models.climbing import Climbing
from fedbandits.models.judging import DrawingAgents, JudgingAgents
from fedbandits.models.kernels import Kernel
from fedbandits.models.optimistic import WidthRule
from fedbandits.models.width import Width, widths


class Posteriors(Protocol):
    """n posteriors of functions, each of what one agent knows."""

    kernel: Kernel
    ridge: float

    def __len__(self) -> int: ...

    @property
    def count(self) -> IntArray:
        """(n,) how many observations each rests on."""

    @property
    def logdet(self) -> FloatArray:
        """(n,) log det(I + K/lambda) of these."""

    @abstractmethod
    def posterior(self, who: IntArray, arms: FloatArray) -> tuple[FloatArray, FloatArray]:
        """(w,), (w, K, d) -> mu and sigma, (w, K) each."""

    @abstractmethod
    def learn(self, who: IntArray, points: FloatArray, rewards: FloatArray) -> None:
        """One observation for each of `who`: `points` (w, d) and `rewards` (w,). Raises before anything has changed."""


def exact_widths(rule: Width, *, noise: float, bound: float, ridge: float, delta: float) -> WidthRule:
    """How far f of norm at most `bound` may be off, in units of sigma / sqrt(lambda); see `models.width`."""

    def width(logdet: FloatArray, count: FloatArray) -> FloatArray:
        # what processes tell is log det(I + K/lambda), from which nothing is to be taken
        known = {"noise": noise, "bound": bound, "ridge": ridge, "delta": delta}
        return widths(rule, **known, dim=0, logdet=logdet, count=count)

    return width


class ProcessAgents(JudgingAgents, Climbing):
    """Agents that act optimistically on exact processes: mu + width sigma / sqrt(lambda).

    They stop learning once they have made `keep` observations; None: never.
    """

    keeps: ClassVar[tuple[str, ...]] = ("models",)

    def __init__(self, models: Posteriors, width: WidthRule, keep: int | None = None) -> None:
        super().__init__(len(models))
        self.models = models
        self._rule = width
        self._keep = keep

    def learn(self, who: IntArray, arms: FloatArray, picks: IntArray, rewards: FloatArray) -> None:
        """One observation per agent in `who`."""
        check_feedback(who, arms, picks, rewards, self._n, self.models.kernel.dim)
        points = arms[np.arange(len(who)), picks]
        if self._keep is not None:
            more = self.models.count[who] < self._keep
            who, points, rewards = who[more], points[more], rewards[more]
        self.models.learn(who, points, rewards)

    def width(self, who: IntArray) -> FloatArray:
        """(w,) how far f may be off, in units of sigma / sqrt(lambda)."""
        return self._rule(self.models.logdet[who], self.models.count[who].astype(np.float64))

    def _judged(self, who: IntArray, arms: FloatArray) -> tuple[FloatArray, FloatArray]:
        """(w, K) what is expected of every arm, and width sigma / sqrt(lambda)."""
        check_arms(who, arms, self._n, self.models.kernel.dim)
        check_finite("arms", who, arms)  # what is infinitely far away would have a score
        mean, deviation = self.models.posterior(who, arms)
        width = self.width(who) / np.sqrt(self.models.ridge)
        return mean, width[:, None] * deviation


class SamplingProcessAgents(DrawingAgents, ProcessAgents):
    """Agents that draw a value from N(mu, (width sigma)^2 / lambda) for each arm, independently, and take the highest.

    No deviation is smaller than `least`, which is larger than 0: a draw of no extent is no draw.
    """

    keeps: ClassVar[tuple[str, ...]] = (*ProcessAgents.keeps, "rng")

    def __init__(
        self, models: Posteriors, width: WidthRule, rng: Streams, *, least: float, keep: int | None = None
    ) -> None:
        super().__init__(models, width, keep)
        self.rng = rng
        self._least = least

    def _judged(self, who: IntArray, arms: FloatArray) -> tuple[FloatArray, FloatArray]:
        mean, deviation = super()._judged(who, arms)
        return mean, np.maximum(deviation, self._least)
