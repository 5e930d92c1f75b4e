"""Instances on which nobody can do well: those that the thesis' lower bounds are proved with.

In all of them one arm is better than the others by `gap`, the difference of (clean) means, and the seed draws which one
it is. `divergence` is KL(nu_k, nu_*) between what is observed of another arm and of the best: telling them apart takes
log T / divergence pulls of arm k, so that group regret of a consistent policy grows at least like `growth` log T.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Annotated, ClassVar

import numpy as np
from pydantic import Field, model_validator
from scipy.special import rel_entr

from fedbandits.contract.arrays import FloatArray
from fedbandits.contract.catalogue import AboutEnvironment
from fedbandits.contract.facts import Contamination, Moment, Noise, Range
from fedbandits.contract.parameters import parameters
from fedbandits.contract.problem import Problem
from fedbandits.environments.armed import SharedArms
from fedbandits.environments.laws import Bernoulli, Law, TwoPoint

_MINIMAX = math.sqrt(3) / 16
"""c in the gap c sqrt(K / (M T)): the maximiser of c/2 - 4 c^2 / sqrt(3), the regret's constant sqrt(3)/64 = 0.027."""


def _one_best(arms: int, best: float, rest: float, rng: np.random.Generator) -> FloatArray:
    """(K,) `best` at a random place, `rest` elsewhere."""
    means = np.full(arms, rest)
    means[rng.integers(arms)] = best
    return means


def _bernoulli_divergence(p: float, q: float) -> float:
    """KL(Bern(p), Bern(q))."""
    return float(rel_entr(p, q) + rel_entr(1 - p, 1 - q))


@parameters
class HardHeavyTailed(SharedArms):
    """Corollary 4.1: arms that reward rarely and much. With a = (2 gap)^(1/epsilon), the best arm gives 1/a with
    probability a^(1+epsilon), any other with half of that, else nothing.

    Means are 2 gap and gap; moments E|X|^(1+epsilon) are 1 and 1/2 (the thesis says 1 for all; it is a bound). Any
    consistent policy has group regret Omega(K gap^(-1/epsilon) log T).
    """

    arms: Annotated[int, Field(ge=2)] = 5
    gap: Annotated[float, Field(gt=0, lt=0.25)] = 0.1
    epsilon: Annotated[float, Field(gt=0, le=1)] = 0.5

    about: ClassVar[AboutEnvironment] = AboutEnvironment(
        name="hard-heavy-tailed",
        family="armed",
        summary="rare, large rewards: the lower bound's instance for heavy tails",
        source="Dubey (2022), thesis, corollary 4.1, after Bubeck, Cesa-Bianchi & Lugosi (2013)",
    )

    @model_validator(mode="after")
    def _rewards_are_numbers(self) -> HardHeavyTailed:
        if math.log(2 * self.gap) / self.epsilon < -150:
            raise ValueError(f"gap={self.gap} with epsilon={self.epsilon} rewards beyond 1e65; raise one of them")
        return self

    @property
    def value(self) -> float:
        """1/a, the only reward there is."""
        return float((2 * self.gap) ** (-1 / self.epsilon))

    @property
    def divergence(self) -> float:
        """KL(nu_k, nu_*), at most gap^2 a^2 / (a^(1+epsilon) (1 - a^(1+epsilon)))."""
        return _bernoulli_divergence(self.gap / self.value, 2 * self.gap / self.value)

    @property
    def growth(self) -> float:
        """(K - 1) gap / divergence, at least (K - 1) 2^(1 - 1/epsilon) gap^(-1/epsilon)."""
        return (self.arms - 1) * self.gap / self.divergence

    def _draw_means(self, horizon: int, rng: np.random.Generator) -> FloatArray:
        return _one_best(self.arms, 2 * self.gap, self.gap, rng)

    def _law(self) -> Law:
        return TwoPoint(self.value)

    def _problem(self, horizon: int) -> Problem:
        order, law = 1 + self.epsilon, TwoPoint(self.value)
        central = max(law.central_moment(mean, order) for mean in (self.gap, 2 * self.gap))
        moment = Moment(order, raw=1.0, central=central)
        return super()._problem(horizon).knowing(Noise(self.value / 2), moment, Range(0.0, self.value))


@dataclass(frozen=True, slots=True)
class MaskedBest:
    """Bernoulli rewards, but those of arms with a mean of `best` are exchanged, at `rate`, for Bern(mask).

    Such a mixture is Bern((1 - rate) best + rate mask), so one uniform number is enough for a decision.
    """

    best: float
    mask: float
    rate: float

    def means(self, scores: FloatArray) -> FloatArray:
        """The scores themselves: means before contamination."""
        return scores

    def shocks(self, rng: np.random.Generator, shape: tuple[int, ...]) -> FloatArray:
        """Uniform numbers."""
        return rng.random(shape)

    def rewards(self, means: FloatArray, shocks: FloatArray) -> FloatArray:
        """1 where the uniform number lies below the probability of what is observed."""
        masked = (1 - self.rate) * self.best + self.rate * self.mask
        return (shocks < np.where(means == self.best, masked, means)).astype(np.float64)


@parameters
class HardContaminated(SharedArms):
    """Theorem 5.3: clicks with probability 1/2 + gap for the best arm and 1/2 for the others, but observations of the
    best arm, everybody's own included, are drawn from Bern(1/2 - gap) at the rate `contamination`.

    The best arm then looks as if it were better by gap (1 - 2 contamination) only; regret is that of clean means. The
    thesis' Delta is 2 gap here: it states the bound for arms that differ by Delta, its instance differs by Delta/2. Its
    bound KL <= Delta^2 (1 - 2 eps)^2 / 3 does not hold; `divergence` is exact, and 3/2 times as large for small gaps.
    """

    arms: Annotated[int, Field(ge=2)] = 5
    gap: Annotated[float, Field(gt=0, lt=0.5)] = 0.1
    contamination: Annotated[float, Field(ge=0, lt=0.5)] = 0.1

    about: ClassVar[AboutEnvironment] = AboutEnvironment(
        name="hard-contaminated",
        family="armed",
        summary="clicks whose best arm is made to look worse: the lower bound's instance for contamination",
        source="Dubey (2022), thesis, theorem 5.3",
    )

    @property
    def divergence(self) -> float:
        """KL(nu_k, nu_*) = -log(1 - 4 gap^2 (1 - 2 contamination)^2) / 2."""
        return _bernoulli_divergence(0.5, 0.5 + self.gap * (1 - 2 * self.contamination))

    @property
    def growth(self) -> float:
        """(K - 1) gap / divergence, about (K - 1) / (2 gap (1 - 2 contamination)^2)."""
        return (self.arms - 1) * self.gap / self.divergence

    def _draw_means(self, horizon: int, rng: np.random.Generator) -> FloatArray:
        return _one_best(self.arms, 0.5 + self.gap, 0.5, rng)

    def _law(self) -> Law:
        return MaskedBest(0.5 + self.gap, 0.5 - self.gap, self.contamination)

    def _problem(self, horizon: int) -> Problem:
        known = super()._problem(horizon)
        return known.knowing(Noise(0.5), Range(0.0, 1.0), Contamination(self.contamination))


@parameters
class HardMinimax(SharedArms):
    """Theorem 2.5: clicks with probability (1 + gap)/2 for one arm and (1 - gap)/2 for the others, the gap being too
    small to be found out within the horizon: sqrt(3)/16 sqrt(K / (M T)) by default, at most 1/2, for M agents.

    The average over seeds of any algorithm's group regret is at least `floor`, if the gap is the default and M T >= K.
    On a graph, where messages take time, the thesis' gap and bound are larger by that delay, which is neglected here.
    """

    arms: Annotated[int, Field(ge=2)] = 5
    gap: Annotated[float, Field(gt=0, lt=1)] | None = None

    about: ClassVar[AboutEnvironment] = AboutEnvironment(
        name="hard-minimax",
        family="armed",
        summary="clicks with a gap too small for the horizon: the minimax lower bound's instance",
        source="Dubey (2022), thesis, theorem 2.5",
    )

    def width(self, horizon: int) -> float:
        """The gap at this horizon."""
        if self.gap is not None:
            return self.gap
        return min(0.5, _MINIMAX * math.sqrt(self.arms / (self.clients * horizon)))

    def divergence(self, horizon: int) -> float:
        """KL(nu_k, nu_*) = gap log((1 + gap)/(1 - gap))."""
        gap = self.width(horizon)
        return _bernoulli_divergence((1 - gap) / 2, (1 + gap) / 2)

    def floor(self, horizon: int) -> float:
        """0.027 sqrt(K M T): what group regret cannot be below, on average over where the best arm is."""
        return 0.027 * math.sqrt(self.arms * self.clients * horizon)

    def _draw_means(self, horizon: int, rng: np.random.Generator) -> FloatArray:
        gap = self.width(horizon)
        return _one_best(self.arms, (1 + gap) / 2, (1 - gap) / 2, rng)

    def _law(self) -> Law:
        return Bernoulli("identity")

    def _problem(self, horizon: int) -> Problem:
        return super()._problem(horizon).knowing(Noise(0.5), Range(0.0, 1.0))
