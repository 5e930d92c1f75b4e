"""Agents that give every arm a number and take the highest: an index, mean and spread, or a draw from these."""

from __future__ import annotations

from abc import abstractmethod

import numpy as np

from fedbandits.contract.arrays import FloatArray, IntArray, first_highest
from fedbandits.contract.population import Choices, Population
from fedbandits.contract.streams import Streams
from fedbandits.models.winning import winning_normally


class IndexAgents(Population):
    """Agents that take the arm of the highest index, the first of equals."""

    @abstractmethod
    def _indices(self, who: IntArray, arms: FloatArray) -> FloatArray:
        """(w,), (w, K, d) -> (w, K). Changes nothing."""

    def choose(self, who: IntArray, arms: FloatArray) -> IntArray:
        """The arm of the highest index of each agent in `who`."""
        return first_highest(who, self._indices(who, arms))

    def scores(self, who: IntArray, arms: FloatArray) -> FloatArray | None:
        """The index of every arm; see `Population`."""
        return self._indices(who, arms)

    def choose_and_tell(self, who: IntArray, arms: FloatArray) -> Choices:
        """See `Population`; indices are computed once, unless agents draw."""
        scores = self.scores(who, arms)
        if scores is None:
            return super().choose_and_tell(who, arms)
        return Choices(first_highest(who, scores), scores, None)


class JudgingAgents(IndexAgents):
    """Agents that are optimistic: their index is what they expect of an arm, and how far that may be off."""

    @abstractmethod
    def _judged(self, who: IntArray, arms: FloatArray) -> tuple[FloatArray, FloatArray]:
        """(w,), (w, K, d) -> (w, K) what is expected of every arm, and (w, K) how far that may be off."""

    def _indices(self, who: IntArray, arms: FloatArray) -> FloatArray:
        mean, spread = self._judged(who, arms)
        return np.asarray(mean + spread)


class DrawingAgents(JudgingAgents):
    """Agents that draw a value from N(expected, off^2) for each arm, independently, and take the highest."""

    rng: Streams

    def choose(self, who: IntArray, arms: FloatArray) -> IntArray:
        """The arm of the highest draw of each agent in `who`."""
        mean, deviation = self._judged(who, arms)
        return first_highest(who, mean + deviation * self.rng.normal(who, arms.shape[1]))

    def scores(self, who: IntArray, arms: FloatArray) -> FloatArray | None:
        """None: what is compared is drawn."""
        return None

    def chances(self, who: IntArray, arms: FloatArray) -> FloatArray | None:
        """The chance of every arm to have the highest draw, to two digits (`models.winning`); see `Population`."""
        return winning_normally(*self._judged(who, arms))
