"""Rewards that are curved along one direction: cos(3 <a, x>) and 10 <a, x>^2, of which linear models learn nothing.

The synthetic functions of Dai, Shu, Verma, Fan, Low & Jaillet (Federated Neural Bandits, ICLR 2023).
"""

from __future__ import annotations

from abc import abstractmethod
from typing import Annotated, ClassVar, Literal, Self

import numpy as np
from pydantic import Field, model_validator

from fedbandits.contract.arrays import FloatArray, IntArray
from fedbandits.contract.catalogue import AboutEnvironment
from fedbandits.contract.facts import Fact, Noise, Norms
from fedbandits.contract.parameters import parameters
from fedbandits.environments.arms import ArmSource
from fedbandits.environments.laws import Gaussian, Law
from fedbandits.environments.linear import unit_rows
from fedbandits.environments.smooth import Smooth
from fedbandits.linalg.kernels import aligned

_SOURCE = "Dai, Shu, Verma, Fan, Low & Jaillet (ICLR 2023)"
RELEASED = (
    0.32325954,
    0.2133327,
    0.51375494,
    0.20780836,
    0.10867534,
    0.41889169,
    0.37378859,
    0.25781819,
    0.1154268,
    0.36887927,
)
"""The direction in all runs of the publication's released code."""


@parameters
class Curved(Smooth):
    """Mean rewards h(<a, x>) for one direction a, all contexts being of unit length, and Gaussian `noise`.

    Contexts are uniform on the sphere, or, with ``contexts="cube"``, directions of points that are uniform in a cube,
    as in the publication's released code. Its `direction` a is ``"released"``, the same ten numbers in all runs; or one
    is ``"drawn"`` for each run, of dimension `dim`.

    `regions` is how far apart the agents' contexts lie: a centre is drawn for each agent on the unit sphere, and its
    contexts are directions of z + regions sqrt(d) centre, z being standard normal: at 0 all agents see the same, at 1
    the angle to an agent's own centre is about 45 degrees.

    `doubled` shows [x; x]/sqrt(2) instead of x, of which networks with a symmetric beginning know nothing at first.

    There is no parameter: the bound S that is told is the largest |h|, so that S L bounds mean rewards as elsewhere.
    """

    clients: Annotated[int, Field(ge=1)] = 5
    arms: Annotated[int, Field(ge=1)] = 4
    dim: Annotated[int, Field(ge=2)] = 10
    noise: Annotated[float, Field(ge=0, allow_inf_nan=False)] = 0.01
    contexts: Literal["sphere", "cube"] = "sphere"
    direction: Literal["released", "drawn"] = "drawn"
    regions: Annotated[float, Field(ge=0, allow_inf_nan=False)] = 0.0
    doubled: bool = False

    largest: ClassVar[float]
    """The largest |h|."""

    @model_validator(mode="after")
    def _the_released_direction_fits(self) -> Self:
        if self.direction == "released" and self.dim != len(RELEASED):
            raise ValueError(
                f"dim={self.dim}: the released direction has {len(RELEASED)} coordinates; leave dim out, or draw one: "
                "direction=drawn"
            )
        return self

    @abstractmethod
    def values(self, along: FloatArray) -> FloatArray:
        """h of <a, x>."""

    def _source(self, rng: np.random.Generator) -> tuple[ArmSource, int]:
        if self.direction == "released":
            direction = np.array(RELEASED) / np.linalg.norm(RELEASED)
        else:
            direction = unit_rows(rng, 1, self.dim)[0]
        centres = self.regions * np.sqrt(self.dim) * unit_rows(rng, self.clients, self.dim)
        return CurvedArms(self, direction, centres), self.dim * (2 if self.doubled else 1)

    def _law(self) -> Law:
        return Gaussian(self.noise)

    def _facts(self, source: ArmSource) -> tuple[Fact, ...]:
        return Noise(self.noise), Norms(parameter=self.largest, arms=1.0)


@parameters
class Cosine(Curved):
    """h = cos(3 <a, x>): best across a, and again in its direction a little. Random play loses 0.31 with 4 arms."""

    largest: ClassVar[float] = 1.0

    about: ClassVar[AboutEnvironment] = AboutEnvironment(
        name="cosine",
        family="neural",
        summary="mean rewards cos(3 <a, x>), contexts of unit length",
        source=_SOURCE,
    )

    def values(self, along: FloatArray) -> FloatArray:
        """See `Curved`."""
        return np.asarray(np.cos(3 * along))


@parameters
class Square(Curved):
    """h = 10 <a, x>^2: best in the direction of a and against it. Random play loses 1.37 with 4 arms."""

    largest: ClassVar[float] = 10.0

    about: ClassVar[AboutEnvironment] = AboutEnvironment(
        name="square",
        family="neural",
        summary="mean rewards 10 <a, x>^2, contexts of unit length",
        source=_SOURCE,
    )

    def values(self, along: FloatArray) -> FloatArray:
        """See `Curved`."""
        return np.asarray(10 * along**2)


class CurvedArms:
    """K new contexts for every decision, about the centre of their agent: `centres` (n, d)."""

    def __init__(self, function: Curved, direction: FloatArray, centres: FloatArray) -> None:
        self._function = function
        self._direction = direction
        self._centres = centres
        self.size = function.arms * len(direction)  # doubled or not: the same seed shows the same contexts

    def draw(self, who: IntArray, theta: FloatArray, rng: np.random.Generator) -> tuple[FloatArray, FloatArray]:
        """For awake agents `who` (B, w): lanes (B, w, d, K) and their mean rewards (B, w, K)."""
        function = self._function
        d = len(self._direction)
        lanes = aligned((*who.shape, d, function.arms))
        if function.contexts == "sphere":
            rng.standard_normal(out=lanes)
        else:
            rng.random(out=lanes)
            lanes -= 0.5
            lanes *= np.sqrt(12.0)  # of variance 1, as the others
        if function.regions:
            lanes += self._centres[who][..., None]
        lanes /= np.linalg.norm(lanes, axis=-2, keepdims=True)
        means = function.values(np.einsum("...dk,d->...k", lanes, self._direction))
        if function.doubled:
            both = aligned((*who.shape, 2 * d, function.arms))
            both[..., :d, :] = both[..., d:, :] = lanes / np.sqrt(2.0)
            lanes = both
        return lanes, means
