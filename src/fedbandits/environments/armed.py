"""K arms with unknown means, the same for all agents: clicks, Gaussian rewards, heavy tails, and their contamination.

Arms are shown as the K unit vectors, so that arm k is the k-th shown and the means are the parameter. Which place the
best arm has is drawn by the seed.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from math import isfinite
from numbers import Real
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
from pydantic import Field, field_validator, model_validator

from fedbandits.contract.arrays import FloatArray
from fedbandits.contract.catalogue import AboutEnvironment
from fedbandits.contract.facts import Contamination, Moment, Noise, Norms, Range
from fedbandits.contract.parameters import parameters
from fedbandits.contract.problem import Problem
from fedbandits.contract.world import parts_of
from fedbandits.environments.arms import FixedArms
from fedbandits.environments.attendance import Attendance
from fedbandits.environments.laws import Bernoulli, Contaminated, Gaussian, Law, Stable
from fedbandits.environments.linear import LinearWorld, presences
from fedbandits.graphs.network import Outliers

Finite = Annotated[float, Field(allow_inf_nan=False)]
_THESIS = "Dubey (2022), thesis"


class ArmedWorld(LinearWorld):
    """A world of K arms that all agents share."""

    @property
    def means(self) -> FloatArray:
        """(K,) the mean rewards of the arms, before any contamination; a copy."""
        return np.array(self.theta[0])

    def mean_rewards(self) -> FloatArray | None:
        """As `means`; see `World`."""
        return self.means


@parameters
class SharedArms(ABC):
    """`clients` agents who face the same `arms` K arms; subclasses say how these reward.

    A share `stragglers` of the agents, chosen at random, is there in a step only with probability `presence`; whoever
    is away neither decides nor can be reached.
    """

    clients: Annotated[int, Field(ge=1)] = 200
    arms: Annotated[int, Field(ge=1)] = 5
    schedule: Attendance = "all"
    stragglers: Annotated[float, Field(ge=0, le=1)] = 0.0
    presence: Annotated[float, Field(gt=0, le=1)] = 0.1

    about: ClassVar[AboutEnvironment]

    def world(self, horizon: int, seed: np.random.SeedSequence) -> ArmedWorld:
        """The instance that `seed` stands for."""
        instance, turns = parts_of(seed, 2)
        rng = np.random.default_rng(instance)
        theta = self._draw_means(horizon, rng)[None, :]
        away = presences(self.clients, self.stragglers, self.presence, rng)
        # whether each of n agents is there is drawn in every step, however few of them decide
        size = 1 if away is None or self.schedule == "all" else self.clients
        source = FixedArms(self.arms, size)
        return ArmedWorld(self._problem(horizon), theta, source, self.schedule, turns, self._law(), away)

    def _problem(self, horizon: int) -> Problem:
        """Sizes; subclasses add what may be known of the rewards."""
        sizes = Problem(agents=self.clients, dim=self.arms, arms=self.arms, horizon=horizon)
        return sizes.knowing(Norms(parameter=self.arms**0.5))

    @abstractmethod
    def _draw_means(self, horizon: int, rng: np.random.Generator) -> FloatArray:
        """(K,) mean rewards, in an order that tells nothing."""

    @abstractmethod
    def _law(self) -> Law:
        """How they reward."""


@parameters
class KArmed(SharedArms):
    """Arms whose `means` are drawn from U[0, 1] by the seed, or given as K numbers, or as those of the `best` arm and
    of the `rest`; given ones are shuffled by the seed.

    `contamination` (Huber): the chance that an observation, be it the agent's own, is an outlier instead of the reward,
    as `outliers` and `outlier` say. Regret is that of the clean means. What `Problem` says of noise and moments holds
    for clean rewards; its range holds for everything observed. To corrupt messages alone, see the network's parameters
    of the same names.
    """

    means: Literal["uniform"] | tuple[Finite, ...] = "uniform"
    best: Finite | None = None
    rest: Finite | None = None
    contamination: Annotated[float, Field(ge=0, lt=0.5)] = 0.0
    outliers: Outliers = "constant"
    outlier: Finite = 10.0

    @field_validator("means", mode="before")
    @classmethod
    def _means_are_a_word_or_numbers(cls, means: Any) -> Any:
        if isinstance(means, (list, tuple)) and all(isinstance(mean, Real) and isfinite(mean) for mean in means):
            return tuple(map(float, means))
        if means == "uniform":
            return means
        raise ValueError(
            "must be 'uniform' or a list of finite numbers, one for each arm; or give best and rest instead"
        )

    @model_validator(mode="after")
    def _means_are_given_once(self) -> KArmed:
        if self.means != "uniform" and len(self.means) != self.arms:
            raise ValueError(f"means: {len(self.means)} numbers for arms={self.arms}; set arms={len(self.means)}")
        if (self.best is None) != (self.rest is None):
            raise ValueError("best and rest belong together: give the mean of the best arm and that of all others")
        if self.best is not None and self.rest is not None:
            if self.means != "uniform":
                raise ValueError("means are given twice; leave out best and rest, or means")
            if self.best < self.rest:
                raise ValueError(f"best={self.best} is below rest={self.rest}; exchange them")
        return self

    @property
    def given(self) -> tuple[float, ...] | None:
        """The means before they are shuffled, best first if they are `best` and `rest`; None: drawn by the seed."""
        if self.best is not None and self.rest is not None:
            return (self.best, *[self.rest] * (self.arms - 1))
        return None if self.means == "uniform" else self.means

    @property
    def largest(self) -> float:
        """A bound on the absolute means: 1, or the largest of those given."""
        return max((1.0, *map(abs, self.given or ())))

    def _draw_means(self, horizon: int, rng: np.random.Generator) -> FloatArray:
        return rng.random(self.arms) if self.given is None else rng.permutation(np.array(self.given))

    def _problem(self, horizon: int) -> Problem:
        bound = self.largest * self.arms**0.5
        return super()._problem(horizon).knowing(Norms(parameter=bound), Contamination(self.contamination))

    def _law(self) -> Law:
        if self.contamination == 0:
            return self._clean_law()
        return Contaminated(self._clean_law(), self.contamination, self.outliers, self.outlier)

    @abstractmethod
    def _clean_law(self) -> Law:
        """How arms reward without contamination."""


@parameters
class BernoulliArms(KArmed):
    """Clicks: y is 1 with probability mu_k, else 0; see `KArmed` for the means and for contamination.

    The thesis: 200 agents, K = 5, randomly initialised means.
    """

    about: ClassVar[AboutEnvironment] = AboutEnvironment(
        name="bernoulli",
        family="armed",
        summary="K arms with click probabilities that all agents share",
        source=_THESIS + ", 3.5",
    )

    @model_validator(mode="after")
    def _means_are_probabilities(self) -> BernoulliArms:
        for mean in self.given or ():
            if not 0 <= mean <= 1:
                raise ValueError(f"means of clicks are probabilities, between 0 and 1 (got {mean})")
        return self

    def _clean_law(self) -> Law:
        return Bernoulli("identity")

    def _problem(self, horizon: int) -> Problem:
        known = super()._problem(horizon).knowing(Noise(0.5))
        within = self._range()
        return known if within is None else known.knowing(within)

    def _range(self) -> Range | None:
        if self.contamination == 0:
            return Range(0.0, 1.0)
        constant = self.outliers == "constant"
        return Range(min(0.0, self.outlier), max(1.0, self.outlier)) if constant else None


@parameters
class GaussianArms(KArmed):
    """y = mu_k + N(0, noise^2); see `KArmed` for the means and for contamination.

    The experiments of Madhushani et al. (2021): 50 agents, K = 10, noise 1, ``best=1, rest=0.5``.
    """

    clients: Annotated[int, Field(ge=1)] = 50
    arms: Annotated[int, Field(ge=1)] = 10
    noise: Annotated[float, Field(ge=0, allow_inf_nan=False)] = 1.0

    about: ClassVar[AboutEnvironment] = AboutEnvironment(
        name="gaussian",
        family="armed",
        summary="K arms with Gaussian rewards that all agents share",
        source="setting of Madhushani, Dubey, Leonard & Pentland, NeurIPS 2021",
    )

    def _clean_law(self) -> Law:
        return Gaussian(self.noise)

    def _problem(self, horizon: int) -> Problem:
        return super()._problem(horizon).knowing(Noise(self.noise))


@parameters
class StableArms(KArmed):
    """Heavy tails: y = mu_k + scale Z, Z standard symmetric alpha-stable (N(0, 2) for alpha = 2); see `KArmed`.

    `order` is that of the moment told to the algorithms, in (1, alpha). The nearer to alpha, the faster intervals of
    robust means shrink, but the larger is the moment. The default (1 + 8 alpha)/9, hence 1.8 for alpha = 1.9, makes
    them about as narrow as they can be for alpha = 1.9 and 1000 samples or more, and at most a third wider for
    alpha = 1.5; it is 2 for alpha = 2. With p the order and m a bound on the means (1 for means in [0, 1]), they learn
    - central: v = E|scale Z|^p, exactly;
    - raw: u = m^p + v. Since Z is symmetric, E|mu + Z|^p = E(|mu + Z|^p + |mu - Z|^p)/2 <= |mu|^p + E|Z|^p for p <= 2
      (Clarkson's inequality); exact for p = 2, and below (m + v^(1/p))^p, what Minkowski's inequality gives.

    No sub-Gaussian constant exists for alpha < 2; the fact `Noise` is sqrt(2) scale, that of alpha = 2, for algorithms
    that want a number, and no guarantee may rest on it. The thesis: 200 agents, K = 5, alpha = 1.9, means U[0, 1]; it
    gives neither order nor u.
    """

    alpha: Annotated[float, Field(gt=1, le=2)] = 1.9
    scale: Annotated[float, Field(gt=0, allow_inf_nan=False)] = 1.0
    order: Annotated[float, Field(gt=1, le=2)] | None = None

    about: ClassVar[AboutEnvironment] = AboutEnvironment(
        name="stable",
        family="armed",
        summary="K arms with heavy-tailed (alpha-stable) rewards that all agents share",
        source=_THESIS + ", 4.4",
    )

    @model_validator(mode="after")
    def _moment_is_finite(self) -> StableArms:
        if self.order is not None and self.order >= self.alpha < 2:
            raise ValueError(f"order={self.order} must be below alpha={self.alpha}: higher moments are infinite")
        return self

    @property
    def moment(self) -> Moment:
        """What is known of the tails."""
        order = self.order
        if order is None:
            order = 2.0 if self.alpha == 2 else (1 + 8 * self.alpha) / 9
        central = Stable(self.alpha, self.scale).central_moment(order)
        return Moment(order, raw=self.largest**order + central, central=central)

    def _clean_law(self) -> Law:
        return Stable(self.alpha, self.scale)

    def _problem(self, horizon: int) -> Problem:
        return super()._problem(horizon).knowing(Noise(2**0.5 * self.scale), self.moment)
