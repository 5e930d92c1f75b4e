"""What algorithms with a network of each agent's own have in common: where it begins, and how it is trained.

Two profiles. ``"paper"`` is what Dai, Shu, Verma, Fan, Low & Jaillet (ICLR 2023) print: no biases, f scaled by sqrt(m),
a symmetric beginning theta_0, features grad f / sqrt(m), and descent on

    (1/m') [1/2 sum (f - y)^2 + 1/2 m lambda ||theta - theta_0||^2]

over m' observations: their eq. (1), which diverges at their rate unless it is divided by m'. It is made for contexts of
unit length whose halves are the same (`doubled`, or ``contexts="unit"``). ``"code"`` is what their released code does:
weights and biases N(0, 1), nothing scaled, and descent on the mean of (f - y)^2 plus lambda / (2 m') ||theta||^2.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from typing import Annotated

import numpy as np
from pydantic import Field

from fedbandits.algorithms.neural.fn_messages import FAR
from fedbandits.contract.arrays import FloatArray, IntArray
from fedbandits.contract.errors import ConfigError
from fedbandits.contract.parameters import parameters
from fedbandits.contract.problem import Problem
from fedbandits.contract.streams import Streams
from fedbandits.models.networks import Architecture, descend, gaussian, symmetric
from fedbandits.models.observations import Observations

_Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]


@parameters
class NetworkParameters(ABC):
    """A network with `layers` hidden layers of `width` m units, regularised by `ridge` lambda and trained, after every
    observation up to number `until`, by `steps` of full-batch gradient descent at `rate` from where it was.
    """

    width: Annotated[int, Field(ge=2)] = 20
    layers: Annotated[int, Field(ge=1)] = 1
    ridge: _Positive = 1.0
    steps: Annotated[int, Field(ge=0)] = 30
    rate: _Positive = 0.01
    until: Annotated[int, Field(ge=0)] = 2000

    @property
    @abstractmethod
    def printed(self) -> bool:
        """Whether networks are as the publication prints them, and not as its code has them."""

    def network(self, problem: Problem) -> Architecture:
        """The network for contexts of `problem`."""
        hidden = (self.width,) * self.layers
        if not self.printed:
            return Architecture(problem.dim, hidden, biased=True)
        if self.width % 2 or problem.dim % 2:
            raise ConfigError(
                f"profile: a symmetric beginning needs an even width and contexts of even dimension (got "
                f"width={self.width} and {problem.dim}); show doubled contexts, or use another profile"
            )
        return Architecture(problem.dim, hidden, scale=float(np.sqrt(self.width)))

    def beginning(self, problem: Problem, rng: Streams) -> FloatArray:
        """(p,) theta_0, the same for everybody."""
        network, common = self.network(problem), rng.common("network")
        if self.printed:
            return symmetric(network, common)
        return gaussian(network, common, (1.0,) * (self.layers + 1))

    def anchor(self, beginning: FloatArray) -> FloatArray:
        """(p,) what networks that begin there are drawn to: theta_0 or nothing."""
        return beginning if self.printed else np.zeros_like(beginning)

    @property
    def divisor(self) -> float:
        """What gradients are divided by to become features."""
        return float(np.sqrt(self.width)) if self.printed else 1.0

    def train(
        self,
        network: Architecture,
        theta: FloatArray,
        data: Observations,
        who: IntArray,
        end: IntArray,
        anchor: FloatArray,
    ) -> None:
        """Move `theta` (w, p) in place, over the first `end` (w,) observations of `who`; `anchor` is that of `anchor`.

        At a fixed rate descent diverges where contexts are long. A network that strays far is cut down, and one that is
        lost stays as it was.
        """
        paper = self.printed
        descend(
            network,
            theta,
            data,
            who,
            end,
            steps=self.steps,
            rate=self.rate,
            loss=1.0 if paper else 2.0,
            decay=self.width * self.ridge if paper else self.ridge,
            anchor=anchor,
            farthest=FAR * math.sqrt(theta.shape[1]),
        )
