"""Agents that act on exact processes, by optimism or by sampling: what algorithms on kernels have in common."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, ClassVar, NamedTuple, Protocol

import numpy as np

from fedbandits.contract.arrays import FloatArray, IntArray, check_arms, check_feedback, check_finite
from fedbandits.contract.compiled import choose, learn, quiet, stands_for, untouched
from fedbandits.contract.streams import Streams, WordArray, next_uniform
from fedbandits.linalg.jit import jit_inside, jit_part
from fedbandits.linalg.kernels import first_best
from fedbandits.linalg.quantiles import address_of, normal_quantile
from fedbandits.linalg.simd import target
from fedbandits.models.climbing import Climbing
from fedbandits.models.judging import DrawingAgents, JudgingAgents
from fedbandits.models.kernels import Kernel
from fedbandits.models.optimistic import WidthRule
from fedbandits.models.processes import ProcessArrays, Processes, append_one, ask_one
from fedbandits.models.untold import all_finite
from fedbandits.models.width import Radius, Width, radius, width_at

_SPOKEN_FOR = ("choose", "learn", "width", "calling", "_indices", "_judged")


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


def exact_widths(rule: Width, *, noise: float, bound: float, ridge: float, delta: float) -> Radius:
    """How far f of norm at most `bound` may be off, in units of sigma / sqrt(lambda); see `models.width`."""
    # what processes tell is log det(I + K/lambda), from which nothing is to be taken
    return radius(rule, noise=noise, bound=bound, ridge=ridge, delta=delta, dim=0)


@quiet
class Exact(NamedTuple):
    """`ProcessAgents` for compiled loops."""

    models: ProcessArrays
    width: Radius
    keep: int


@quiet
class Drawn(NamedTuple):
    """`SamplingProcessAgents` for compiled loops."""

    agents: Exact
    least: float
    words: WordArray
    quantile: int


@jit_part
def _judge(agents: Exact, i: int, arms: FloatArray, row: int, mean: FloatArray, spread: FloatArray) -> None:
    """What is expected of every arm (K,), and width sigma / sqrt(lambda)."""
    models = agents.models
    ask_one(models, i, arms, row, np.empty((models.held[i], arms.shape[2])), mean, spread)
    _widen(spread, width_at(agents.width, models.logdet[i], float(models.held[i])), models.ridge)


# the rest exactly as numpy does it for many
@jit_part
def _widen(spread: FloatArray, width: float, ridge: float) -> None:
    times = width / np.sqrt(ridge)
    for k in range(len(spread)):
        spread[k] = times * spread[k]


@jit_part
def _pick(mean: FloatArray, spread: FloatArray) -> int:
    """The first of the highest sums, which take the place of `spread`."""
    for k in range(len(spread)):
        spread[k] = mean[k] + spread[k]
    return first_best(target(spread, 0), len(spread))


@jit_part
def _draw(spread: FloatArray, least: float, words: WordArray, i: int, quantile: int) -> None:
    for k in range(len(spread)):
        spread[k] = max(spread[k], least) * normal_quantile(quantile, next_uniform(words, i))


@stands_for(choose, Exact)
@jit_inside
def _choose(agents: Exact, i: int, arms: FloatArray, row: int, room: FloatArray) -> int:
    if not all_finite(arms, row):
        return -1
    mean, spread = np.empty(arms.shape[2]), np.empty(arms.shape[2])
    _judge(agents, i, arms, row, mean, spread)
    return _pick(mean, spread)


@stands_for(choose, Drawn)
@jit_inside
def _choose_drawn(drawing: Drawn, i: int, arms: FloatArray, row: int, room: FloatArray) -> int:
    if not all_finite(arms, row):  # before the streams move on
        return -1
    mean, spread = np.empty(arms.shape[2]), np.empty(arms.shape[2])
    _judge(drawing.agents, i, arms, row, mean, spread)
    _draw(spread, drawing.least, drawing.words, i, drawing.quantile)
    return _pick(mean, spread)


@stands_for(learn, Exact)
@jit_inside
def _learn(agents: Exact, i: int, arms: FloatArray, row: int, pick: int, reward: float, room: FloatArray) -> bool:
    models = agents.models
    if models.held[i] == agents.keep:
        return False
    point = np.empty((arms.shape[1], 1))
    for j in range(arms.shape[1]):
        point[j, 0] = arms[row, j, pick]
    append_one(models, i, point, reward)
    return bool(models.held[i] == models.solved.shape[1])


@stands_for(learn, Drawn)
@jit_inside
def _learn_drawn(
    drawing: Drawn, i: int, arms: FloatArray, row: int, pick: int, reward: float, room: FloatArray
) -> bool:
    return _learn(drawing.agents, i, arms, row, pick, reward, room)


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

    def compiled(self) -> Any:
        """See `Population`."""
        return self._exact() if untouched(self, ProcessAgents, *_SPOKEN_FOR) else None

    def tend(self) -> None:
        """See `Population`."""
        models = self.models
        if isinstance(models, Processes) and models.solved.shape[1] < models.capacity and self._cramped(models):
            models.grow()

    def _exact(self) -> Exact | None:
        """None where compiled loops do not know the processes, or the width, or somebody has no room to learn."""
        models = self.models
        if type(models) is not Processes or not isinstance(self._rule, Radius) or self._cramped(models):
            return None
        return Exact(models.arrays(), self._rule, -1 if self._keep is None else self._keep)

    def _cramped(self, models: Processes) -> bool:
        """Whether somebody who goes on learning has no room to."""
        return bool(((models.count >= models.solved.shape[1]) & (models.count != self._keep)).any())

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

    def compiled(self) -> Any:
        """See `Population`."""
        drawn = untouched(self.rng, Streams, "uniform", "normal")
        exact = self._exact() if drawn and untouched(self, SamplingProcessAgents, *_SPOKEN_FOR) else None
        return None if exact is None else Drawn(exact, self._least, self.rng.words, address_of("normal"))

    def _judged(self, who: IntArray, arms: FloatArray) -> tuple[FloatArray, FloatArray]:
        mean, deviation = super()._judged(who, arms)
        return mean, np.maximum(deviation, self._least)
