"""FN-UCB and FN-UCB (Less Comm.): federated neural bandits as published."""

from __future__ import annotations

import dataclasses
from typing import Annotated, ClassVar, Literal

import numpy as np
from pydantic import Field, model_validator

from fedbandits.algorithms.neural.fn_agents import FNAgents
from fedbandits.algorithms.neural.fn_messages import FAR, says
from fedbandits.algorithms.neural.fn_server import FNServer
from fedbandits.algorithms.neural.neural_ucb import Matrix
from fedbandits.algorithms.neural.parameters import NetworkParameters
from fedbandits.contract.arrays import FloatArray
from fedbandits.contract.catalogue import About
from fedbandits.contract.depending import depending
from fedbandits.contract.facts import Embedding, Norms, Ridge
from fedbandits.contract.parameters import parameters
from fedbandits.contract.problem import Problem
from fedbandits.contract.streams import Streams
from fedbandits.models.paced import Paced, by_schedule

Mixing = Annotated[float, Field(ge=0, le=1)] | Literal["linear", "theory", "theory-first"]
_NotNegative = Annotated[float, Field(ge=0, allow_inf_nan=False)]


def _by_parameters(one: FNUCB, about: About) -> About:
    said = says(diagonal=one.matrix == "diagonal", less=one.less, passed_on=one.passed_on, biased=not one.printed)
    return by_schedule(one, about if said == about.says else dataclasses.replace(about, says=said))


def _about(name: str, *, less: bool) -> About:
    return depending(
        About(
            name=name,
            family="neural",
            topology="star",
            talks="everybody, when one agent's turns times its log-determinant growth exceed D",
            says=says(diagonal=False, less=less, passed_on=False, biased=True),
            guarantee="none for widths and constants in use",
            source="Dai, Shu, Verma, Fan, Low & Jaillet, Federated Neural Bandits, ICLR 2023",
            environment="cosine",
        ),
        _by_parameters,
    )


@parameters
class FNUCB(Paced, NetworkParameters):
    """argmax (1 - alpha) UCBa + alpha UCBb: tangent features over everybody's data, and an average of networks.

        UCBa = <phi, V^-1 B> + nu_all sqrt(lambda) ||phi||_{V^-1},    V = lambda I + sum phi phi^T, everybody's
        UCBb = f(x; theta_sync) + nu_own sqrt(lambda) (1/N) sum_j ||phi||_{V_j^-1},    V_j agent j's own, last round

    phi(x) being the gradient of the network at theta_0. An agent calls when its turns since the last round times the
    growth of log det V (or of its diagonal, as in the publication's experiments: `determinant`) exceed D = `threshold`:
    at 0 after every turn; or after b = `every` own turns (`models.paced`). Then all hand over what is new of phi phi^T
    and y phi, V_j^-1, and a network trained on all own data from where it was, from theta_0 or from the last average
    (`start`); the server adds up and averages, and tells everybody. Scalars for each agent and round: 2 p^2 + 2p + 1 up
    and (1 + N) p^2 + 2p + 1 down, and 1 more each way where alpha is told; with diagonals p for p^2.

    `mixing`: ``"linear"``, alpha rises from 0 to 1 over `ramp` own turns; ``"theory"``, the smallest over agents of
    min ||phi||_{V_i^-1} / max ||phi||_{V_i^-1} over `probes` random contexts; ``"theory-first"``, the same in the first
    turn after a round and 0 otherwise, which is what the theorem is about; or a constant: 0 is the ablation without
    UCBb, 1 that without UCBa. ``averaged=False`` is the one in which agents use their own networks.

    `profile`: ``"paper"`` and, as released but with networks of the agents' own, ``"code-fixed"`` are those of
    `algorithms.neural.parameters`. ``"code-alias"`` is what the publication's released code does by accident, done
    honestly: one network is passed from agent to agent, each of which trains it on its own data, and features are
    gradients at that network as it is. Its published figures agree with that and not with the text.

    With matrices of which the diagonal is kept (`matrix`), `rescale` maps the first term of UCBa to [0, 1] over the
    arms at hand; None: in the profile ``"paper"`` alone.

    Guarantee: regret O(d~ sqrt(TN)) + O~(d~max sqrt(TN)) and O~(d~ sqrt(N)) rounds, for networks that are wide enough,
    ``"theory-first"`` and constants that nobody uses; none for the defaults.
    """

    profile: Literal["paper", "code-fixed", "code-alias"] = "code-fixed"
    ridge: Annotated[float, Field(gt=0, allow_inf_nan=False)] = 0.1
    nu_all: _NotNegative = 0.1
    nu_own: _NotNegative = 0.1
    threshold: Annotated[float, Field(ge=0)] = 0.0
    determinant: Matrix = "diagonal"
    matrix: Matrix = "full"
    mixing: Mixing = "linear"
    ramp: Annotated[int, Field(ge=1)] = 700
    probes: Annotated[int, Field(ge=1)] = 200
    averaged: bool = True
    start: Literal["own", "beginning", "average"] = "own"
    rescale: bool | None = None

    less: ClassVar[bool] = False
    """Whether one mean inverse is told in place of everybody's."""

    about: ClassVar[About] = _about("fn-ucb", less=False)

    @model_validator(mode="after")
    def _one_network_is_nobodys(self) -> FNUCB:
        if self.passed_on and (not self.averaged or self.start != "own"):
            raise ValueError(
                "profile=code-alias: one network is passed on, which is neither averaged nor begun anew; leave out "
                "averaged and start"
            )
        if self.matrix == "diagonal" and self.determinant == "full":
            raise ValueError("determinant: matrices of which the diagonal is kept have no other; leave it out")
        return self

    @property
    def passed_on(self) -> bool:
        """Whether one network is passed from agent to agent."""
        return self.profile == "code-alias"

    @property
    def ceaseless(self) -> bool:
        """Whether a round is due after every turn, of which no determinant need be known."""
        return self.every == 1 or self.by_any_growth

    @property
    def by_any_growth(self) -> bool:
        """Whether agents call once they have observed anything but nothing, x = 0."""
        return self.every is None and self.threshold == 0 and self.determinant == "diagonal"

    @property
    def printed(self) -> bool:
        """See `NetworkParameters`."""
        return self.profile == "paper"

    @property
    def needs_network(self) -> bool:
        """Whether networks matter at all, or are what features are taken at."""
        return self.mixing != 0.0 or self.passed_on

    @property
    def by_theory(self) -> bool:
        """Whether mixing weights are computed and sent."""
        return self.mixing in ("theory", "theory-first")

    @property
    def rescaled(self) -> bool:
        """Whether the first term of UCBa is mapped to [0, 1]."""
        return self.printed if self.rescale is None else self.rescale

    def sizes(self, problem: Problem) -> dict[str, int]:
        """The number p of parameters."""
        return {"p": self.network(problem).parameters}

    def assumes(self, problem: Problem) -> tuple[Embedding, Ridge]:
        """What bounds of messages rest on: features of networks whose layers have norms of at most FAR sqrt(p)."""
        network = self.network(problem)
        most, bias = FAR**2 * network.parameters, int(network.biased)
        level, square = problem.get(Norms, Norms()).arms ** 2 + bias, 0.0
        for above in range(len(network.hidden), -1, -1):
            square += most**above * level
            level = most * level + bias
        size = float(np.sqrt(square)) * network.scale / self.divisor
        return Embedding(network.parameters, size), Ridge(self.ridge)

    def probes_of(self, problem: Problem, rng: Streams) -> FloatArray:
        """(probes, d) contexts of the largest length in random directions, doubled for symmetric networks."""
        half = self.printed
        drawn = rng.common("probes").standard_normal((self.probes, problem.dim // 2 if half else problem.dim))
        both = np.hstack([drawn, drawn]) if half else drawn
        longest = problem.get(Norms, Norms()).arms
        return np.asarray(longest * both / np.linalg.norm(both, axis=1, keepdims=True))

    def agents(self, problem: Problem, n: int, rng: Streams) -> FNAgents:
        """n agents."""
        return FNAgents(self, problem, n, rng)

    def server(self, problem: Problem, n: int, rng: Streams) -> FNServer:
        """The server that adds up."""
        return FNServer(self, problem, n, rng)


@parameters
class FNUCBLess(FNUCB):
    """FN-UCB (Less Comm.): as `FNUCB`, with one mean of inverses in place of all of them.

    UCBb = f(x; theta_sync) + nu_own sqrt(lambda) ||phi|| in the norm of (1/N) sum_j V_j^-1, never smaller than with all
    of them; 2 p^2 + 2p + 1 scalars down instead of (1 + N) p^2 + 2p + 1. The publication's default.

    Guarantee: as `FNUCB`, none for the defaults.
    """

    less: ClassVar[bool] = True

    about: ClassVar[About] = _about("fn-ucb-less", less=True)
