"""Functions over candidates that stay: Hartmann-6 and Cosine8, and what their environments have in common.

The synthetic problems of Li, Liu & Wang (ICLR 2024): everybody chooses from the same points at every turn. Beyond the
publication the points may also be new ones of the whole box at every turn, what agents chose may be refined, and agents
may propose points themselves.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import Annotated, ClassVar, Literal

import numpy as np
from pydantic import Field, model_validator
from scipy.stats import qmc

from fedbandits.contract.arrays import FloatArray, IntArray
from fedbandits.contract.catalogue import AboutEnvironment
from fedbandits.contract.facts import Candidates, Fact, Link, Noise, Norms
from fedbandits.contract.parameters import parameters
from fedbandits.contract.world import World
from fedbandits.environments.arms import ArmSource, GivenArms
from fedbandits.environments.laws import Gaussian, Law
from fedbandits.environments.proposing import SLOTS, ProposingWorld
from fedbandits.environments.refining import RefiningWorld, around
from fedbandits.environments.smooth import FunctionWorld, Smooth
from fedbandits.linalg.kernels import aligned

_SOURCE = "Li, Liu & Wang, Communication-Efficient Federated Non-Linear Bandit Optimization, ICLR 2024"


@parameters
class Box(Smooth):
    """Rewards f(x) plus Gaussian `noise`, f being a function on a box.

    With ``shown="candidates"`` there are `arms` points, drawn uniformly once for each instance, and everybody chooses
    from all of them at every turn; agents are told so (`Candidates`). With ``shown="box"`` every decision has points
    of its own: `arms` consecutive ones of a scrambled Sobol sequence, which fill the box evenly if they are a power of
    two. Regret is against the best that is shown. With ``shown="refined"`` 2d + 2 of the `arms` lie around the agent's
    last choice instead, so that it can climb from there (`environments.refining`), and with ``shown="proposed"`` agents
    may replace a few of them by points of their own (`environments.proposing`): whoever knows a model climbs its index.
    In both regret is against the maximum of f on the whole box.

    `unit` maps the values of the candidates linearly onto [0, 1], and tells agents of a logistic `Link`, as generalized
    linear models want it; `noise` is then that of what is observed. `constant` appends a 1 to every arm, without which
    linear models have no intercept. `literal` has the sign as the publication says it, "both functions are negated",
    and not as it must have been meant for a function that is already to be maximised; for others it changes nothing.

    There is no parameter: the bound S that is told is such that S L bounds |f|, L being the longest arm.
    """

    clients: Annotated[int, Field(ge=1)] = 20
    arms: Annotated[int, Field(ge=1)] = 50
    noise: Annotated[float, Field(ge=0, allow_inf_nan=False)] = 0.01
    shown: Literal["candidates", "box", "refined", "proposed"] = "candidates"
    unit: bool = False
    constant: bool = False
    literal: bool = False

    low: ClassVar[float]
    high: ClassVar[float]
    inputs: ClassVar[int]
    """How many coordinates x has."""
    largest: ClassVar[float]
    """A bound on |f|."""

    @property
    @abstractmethod
    def top(self) -> float:
        """The maximum of f on the box."""

    @model_validator(mode="after")
    def _shows_what_it_can(self) -> Box:
        if self.shown != "candidates" and self.unit:
            raise ValueError("unit: without candidates there are no values to scale by; use shown='candidates'")
        if self.arms <= self._led:
            what = f"the {around(self.inputs)} around a choice" if self.shown == "refined" else "the last choice"
            raise ValueError(f"arms={self.arms} leaves no room for new points beside {what}; raise arms")
        if self.shown == "proposed" and self.arms <= SLOTS + 1:
            raise ValueError(f"arms={self.arms} leaves none beside {SLOTS} that agents may propose; raise arms")
        return self

    @abstractmethod
    def values(self, points: FloatArray) -> FloatArray:
        """(..., d) -> (...) f, to be maximised."""

    def _source(self, rng: np.random.Generator) -> tuple[ArmSource, int]:
        if self.shown != "candidates":
            return SobolArms(self, self.arms - self._led), self.inputs + self.constant
        points = self.low + (self.high - self.low) * rng.random((self.arms, self.inputs))
        values = self.values(points)
        if self.unit:
            extent = float(np.ptp(values))
            values = (values - values.min()) / (extent if extent > 0 else 1.0)
        if self.constant:
            points = np.concatenate([points, np.ones((self.arms, 1))], axis=1)
        return GivenArms(points, values), points.shape[1]

    def _moved(self, world: FunctionWorld, rng: np.random.Generator) -> World:
        if not self._led:
            return world
        start = self.low + (self.high - self.low) * rng.random((self.clients, self.inputs))
        kind = RefiningWorld if self.shown == "refined" else ProposingWorld
        return kind(world, self.values, self.top, (self.low, self.high), start)

    @property
    def _led(self) -> int:
        """How many arms follow from an agent's last choice."""
        return {"refined": around(self.inputs), "proposed": 1}.get(self.shown, 0)

    def _law(self) -> Law:
        return Gaussian(self.noise)

    def _facts(self, source: ArmSource) -> tuple[Fact, ...]:
        longest = float(np.sqrt(self.inputs * max(abs(self.low), abs(self.high)) ** 2 + self.constant))
        largest = 1.0 if self.unit else self.largest
        told: tuple[Fact, ...] = (Noise(self.noise), Norms(parameter=largest / longest, arms=longest))
        if isinstance(source, GivenArms):
            told = (*told, Candidates.of(source.points))
        return (*told, Link("logistic")) if self.unit else told


@parameters
class Hartmann6(Box):
    """f(x) = sum_i a_i exp(-sum_j A_ij (x_j - P_ij)^2) on [0, 1]^6: six local maxima, the highest of 3.32237.

    The publication prints -f and negates it, and leaves out a factor of 1e-4 at P, without which f is 0 everywhere.
    """

    low: ClassVar[float] = 0.0
    high: ClassVar[float] = 1.0
    inputs: ClassVar[int] = 6
    largest: ClassVar[float] = 3.3224
    top: ClassVar[float] = 3.32237

    about: ClassVar[AboutEnvironment] = AboutEnvironment(
        name="hartmann6",
        family="nonlinear",
        summary="the Hartmann function of six coordinates, over candidates that stay or over its box",
        source=_SOURCE,
    )

    def values(self, points: FloatArray) -> FloatArray:
        """See `Box`."""
        squares = (points[..., None, :] - _CENTRES) ** 2
        return np.asarray((_HEIGHTS * np.exp(-(_RATES * squares).sum(axis=-1))).sum(axis=-1))


@parameters
class Cosine8(Box):
    """f(x) = 0.1 sum_i cos(5 pi x_i) - sum_i x_i^2 on [-1, 1]^8: 0.8 at 0, and between -8.8 and that.

    Printed as it is to be maximised, and nevertheless "negated": `literal` has -f.
    """

    low: ClassVar[float] = -1.0
    high: ClassVar[float] = 1.0
    inputs: ClassVar[int] = 8
    largest: ClassVar[float] = 8.8

    about: ClassVar[AboutEnvironment] = AboutEnvironment(
        name="cosine8",
        family="nonlinear",
        summary="a paraboloid of eight coordinates with a cosine on each, over candidates that stay or over its box",
        source=_SOURCE,
    )

    @property
    def top(self) -> float:
        """See `Box`."""
        return 8.8 if self.literal else 0.8

    def values(self, points: FloatArray) -> FloatArray:
        """See `Box`."""
        found = np.asarray(0.1 * np.cos(5 * np.pi * points).sum(axis=-1) - (points**2).sum(axis=-1))
        return -found if self.literal else found


class SobolArms:
    """`arms` points of the box for every decision, by a Sobol sequence that is scrambled anew for every block of
    steps.
    """

    def __init__(self, function: Box, arms: int) -> None:
        self._function = function
        self._arms = arms
        self.size = arms * (function.inputs + function.constant)

    def draw(self, who: IntArray, theta: FloatArray, rng: np.random.Generator) -> tuple[FloatArray, FloatArray]:
        """For awake agents `who` (B, w): lanes (B, w, d, K) and their mean rewards (B, w, K)."""
        function = self._function
        sequence = qmc.Sobol(function.inputs, scramble=True, rng=rng)
        count = who.size * self._arms
        drawn = sequence.random_base2(max(0, int(count - 1).bit_length()))[:count]
        points = function.low + (function.high - function.low) * drawn.reshape(*who.shape, self._arms, -1)
        lanes = aligned((*who.shape, function.inputs + function.constant, self._arms))
        lanes[..., : function.inputs, :] = points.swapaxes(-1, -2)
        lanes[..., function.inputs :, :] = 1.0
        return lanes, function.values(points)


_HEIGHTS = np.array([1.0, 1.2, 3.0, 3.2])
_RATES = np.array(
    [
        [10.0, 3.0, 17.0, 3.5, 1.7, 8.0],
        [0.05, 10.0, 17.0, 0.1, 8.0, 14.0],
        [3.0, 3.5, 1.7, 10.0, 17.0, 8.0],
        [17.0, 8.0, 0.05, 10.0, 0.1, 14.0],
    ]
)
_CENTRES = 1e-4 * np.array(
    [
        [1312.0, 1696.0, 5569.0, 124.0, 8283.0, 5886.0],
        [2329.0, 4135.0, 8307.0, 3736.0, 1004.0, 9991.0],
        [2348.0, 1451.0, 3522.0, 2883.0, 3047.0, 6650.0],
        [4047.0, 8828.0, 8732.0, 5743.0, 1091.0, 381.0],
    ]
)
