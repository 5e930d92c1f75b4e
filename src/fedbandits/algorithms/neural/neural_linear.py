"""Neural-linear bandits in company: a network trained by sums of gradients, and a pooled last layer."""

from __future__ import annotations

import dataclasses
import math
from typing import Annotated, ClassVar, Literal

import numpy as np
from pydantic import Field

from fedbandits.algorithms.neural.exploring import Exploration
from fedbandits.algorithms.neural.messages import (
    ASK_LAYER,
    ASK_SLOPE,
    ASK_TRAINED,
    LAYER,
    MODEL,
    OPEN,
    SLOPE,
    TALLY,
    TRAINED,
    cut_down,
)
from fedbandits.algorithms.neural.network_agents import NetworkAgents
from fedbandits.algorithms.neural.network_server import NetworkServer
from fedbandits.contract.arrays import FloatArray
from fedbandits.contract.catalogue import About
from fedbandits.contract.depending import depending
from fedbandits.contract.errors import ConfigError
from fedbandits.contract.facts import Fact, Range, Trained
from fedbandits.contract.parameters import parameters
from fedbandits.contract.problem import Problem
from fedbandits.contract.streams import Streams
from fedbandits.models.networks import Architecture, gaussian

_Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]
_NotNegative = Annotated[float, Field(ge=0, allow_inf_nan=False)]


def _by_training(one: NeuralLinear, about: About) -> About:
    if one.cut is not None:
        tally, slope, layer = cut_down(one.cut)
        return dataclasses.replace(about, says=(OPEN, tally, ASK_SLOPE, slope, ASK_LAYER, layer, MODEL))
    if one.training == "pooled":
        return about
    says = (OPEN, TALLY, ASK_TRAINED, TRAINED, ASK_LAYER, LAYER, MODEL)
    return dataclasses.replace(about, says=says, talks=f"{about.talks}; networks are averaged")


@parameters
class NeuralLinear:
    """A network f(x) = <w, z>, z = [max(W [x; 1], 0); 1], that all agents train together, and optimism in w.

    An agent explores (`explore`, see `exploring`) on a ridge regression of rewards on z with lambda = `ridge` and a
    width of `nu` sqrt(lambda), over everybody's observations up to the last synchronisation and its own since. Rewards
    are in units of everybody's mean and standard deviation.

    When: an agent calls after max(1, `growth` M / n) own observations since the last synchronisation, M being how many
    it was over: every turn at first, and 60 times up to T = 2000 with `growth` 0.1. Turns say when, never rewards.

    Then, among those who answer: (1) counts and sums of rewards, squares and ||x||^2 go up. (2) `steps` times, the
    network goes down and every agent's sum of (f - y) grad f over all its data comes up; the server takes a step of
    Adam at `rate` along (2 sum + `decay` theta) / M. (3) Sums of z z^T and y z at the new W go up, and their pool goes
    down with W; its ridge estimate is the w from which training goes on the next time.
    With m = `width` hidden units, p = m (d + 1) + m + 1 and q = m + 1: J (2p + 3) + 2p + 2q^2 + 10 scalars for each
    agent, J being `steps`. The first synchronisation scales W to the contexts' mean squared length.

    Adam begins anew in each synchronisation. From `settled` observations on, where that is given, it goes on with its
    running means of the last one instead. Anew, its first steps have the size of `rate` in every coordinate, however
    small the gradients: on `square` the regret of turns 1000 to 2000 was 1.6 for each of five agents, and 0.4 with
    ``settled=1000``. On `cosine`, `shuttle` and `magic` ten seeds cannot tell (experiments `neural-company`).

    Agents with more data weigh more, by the number of their observations. Who is away is left out, and goes on with
    what it has; where those who are there have less than `quorum` of what was known, they wait. An agent takes part
    from its second observation on, since the sum over one is that one.

    ``training="averaged"`` instead lets every agent take `steps` of Adam on its own data and averages the networks,
    weighted by counts, `rounds` times: 2 p `rounds` scalars. Only for agents that see the same kinds of contexts, where
    five of them had 4.1 on `cosine` and 19 on `square` (`steps` 10; one alone 10 and 51; trained together 2.5 and 13).
    Where every agent has a region of its own it gained nothing from company that ten seeds could tell, and single runs
    go far astray: from 5.8 to 8.6, and from 41 to 51, against 6.3 to 1.9 and 35 to 11 if trained together.

    With `cut`, gradients of single observations and z are cut down to that norm, and rewards are in units of the fact
    `range`, in which they are at most 1, so that every observation adds a known amount to whatever is sent. A noise
    stage needs that: ``neural-linear:cut=2|gaussian`` (`channel.training`), which then says when and how often.

    Guarantee: none is proved, neither of regret nor that training succeeds. What is measured stands in the experiment
    `neural-company`.
    """

    width: Annotated[int, Field(ge=1)] = 50
    ridge: _Positive = 0.1
    nu: _NotNegative = 2.0
    explore: Exploration = "ucb"
    focus: _Positive = 10.0
    growth: _NotNegative = 0.1
    training: Literal["pooled", "averaged"] = "pooled"
    steps: Annotated[int, Field(ge=1)] = 30
    rounds: Annotated[int, Field(ge=1)] = 5
    rate: _Positive = 0.03
    settled: Annotated[float, Field(ge=0)] = math.inf
    decay: _NotNegative = 1.0
    quorum: Annotated[float, Field(ge=0, le=1)] = 0.5
    cut: _Positive | None = None

    about: ClassVar[About] = depending(
        About(
            name="neural-linear",
            family="neural",
            topology="star",
            talks="everybody trains together when observations have grown by a tenth",
            says=(OPEN, TALLY, ASK_SLOPE, SLOPE, ASK_LAYER, LAYER, MODEL),
            calls="scheduled",
            guarantee="none proved",
            source="ours; neural-linear models of Riquelme, Tucker & Snoek (ICLR 2018), trained by pooled gradients",
            environment="cosine",
        ),
        _by_training,
    )

    def __post_init__(self) -> None:
        if self.cut is not None and self.training == "averaged":
            raise ConfigError(
                "cut: networks that agents train by themselves do not add up by observations; use training='pooled'"
            )

    def assumes(self, problem: Problem) -> tuple[Fact, ...]:
        """What is asked of agents, where it is cut down."""
        if self.cut is None:
            return ()
        network = self.network(problem)
        return (Trained(self.cut, network.parameters, network.features),)

    def units(self, problem: Problem) -> tuple[float, float]:
        """Mean and deviation of rewards before any are known, and for ever where they are known to lie in a range."""
        if self.cut is None:
            return 0.0, 1.0
        known = problem.need(Range, by=self.about)
        return (known.low + known.high) / 2, (known.high - known.low) / 2

    def network(self, problem: Problem) -> Architecture:
        """The network for contexts of `problem`."""
        return Architecture(problem.dim, (self.width,), biased=True)

    def beginning(self, problem: Problem, rng: Streams, length: float) -> FloatArray:
        """(p,) where all begin, contexts having a mean squared `length`: W ~ N(0, 2/(length + 1)), w ~ N(0, 1/m)."""
        deviations = (np.sqrt(2 / (length + 1)), self.width**-0.5)
        return gaussian(self.network(problem), rng.common("network"), deviations, last_bias=False)

    def sizes(self, problem: Problem) -> dict[str, int]:
        """Lengths of what crosses the wire: parameters p, of which h inside and q in the last layer."""
        network = self.network(problem)
        return {"p": network.parameters, "q": network.features, "h": network.parameters - network.features}

    def agents(self, problem: Problem, n: int, rng: Streams) -> NetworkAgents:
        """n agents."""
        return NetworkAgents(self, problem, n, rng)

    def server(self, problem: Problem, n: int, rng: Streams) -> NetworkServer:
        """The server that trains."""
        return NetworkServer(self, problem, n, rng)
