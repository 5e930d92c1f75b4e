"""GP-UCB under local privacy: a server that nobody trusts passes on what everybody has perturbed."""

from __future__ import annotations

from typing import Annotated, ClassVar

from pydantic import BeforeValidator, Field, model_validator

from fedbandits.algorithms.gp.acting import FeatureActing
from fedbandits.algorithms.gp.pooled import PooledFeatures
from fedbandits.algorithms.gp.printed import Constants, printed
from fedbandits.algorithms.linear.servers import PoolServer
from fedbandits.channel.composition import Composition, entry
from fedbandits.channel.gaussian import Gaussian
from fedbandits.channel.scheduled import Scheduled
from fedbandits.channel.through import Through
from fedbandits.contract.algorithm import Algorithm
from fedbandits.contract.catalogue import About
from fedbandits.contract.parameters import parameters
from fedbandits.contract.problem import Problem
from fedbandits.contract.protection import Adjacency
from fedbandits.contract.streams import Streams

_Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]


@parameters
class RelayedFeatures(PooledFeatures):
    """As `PooledFeatures`, with a server that hears from those who have something new alone."""

    def server(self, problem: Problem, n: int, rng: Streams) -> PoolServer:
        """A server that collects from callers and tells everybody."""
        return PoolServer(self, n, self.size(problem), collects="callers", tells="everybody")


@parameters
class LDPGPUCB(FeatureActing, Composition):
    """GP-UCB whose users trust nobody (Dubey 2022, thesis, algorithm 14): what one turn adds to the sums of phi phi^T
    and y phi gets Gaussian noise before it leaves, the server adds it up and passes the sums on, and whoever is next
    acts on them.

    Every upload is one observation with noise of its own, so that each is (`epsilon`, `delta`)-differentially private
    whatever the server does with it. Noise adds up: its standard deviation grows with the square root of all turns of
    everybody, as fast as sums of independent things do. An agent here may be one user or a device with several.

    ``constants="thesis"``: the printed noise and regulariser (`algorithms.gp.printed`). ``epsilon=None``, in
    files "none": the same without noise, everybody's observations in one process.

    Guarantee: local privacy as above. Of regret, none is proved for the default; corollary 7.3, O(T^(3/4)
    sqrt(gamma_T / epsilon)) up to logarithms for one user a turn, is about printed constants and the whole width.
    """

    epsilon: Annotated[_Positive | None, BeforeValidator(lambda given: None if given == "none" else given)] = 1.0
    delta: Annotated[float, Field(gt=0, lt=1)] = 1e-5
    adjacency: Adjacency = "add-remove"
    rewards: _Positive | None = None
    constants: Constants = "exact"

    about: ClassVar[About] = entry(
        Through(FeatureActing().inner(RelayedFeatures), (Gaussian(mechanism="fresh", every=1),)),
        name="ldp-gp-ucb",
        talks="after every observation, to everybody",
        source="Dubey (2022), thesis, algorithm 14",
    )

    @model_validator(mode="after")
    def _fits(self) -> LDPGPUCB:
        _ = self.composed  # refuses what the stage cannot serve
        return self

    def compose(self) -> Algorithm:
        """See `Composition`."""
        given = {name: getattr(self, name) for name in ("delta", "adjacency", "rewards")}
        noise = Gaussian(epsilon=self.epsilon or 1.0, mechanism="fresh", every=1, **given)
        if self.epsilon is None:
            return Through(self.inner(RelayedFeatures), (Scheduled(noise),))
        return Through(self.inner(RelayedFeatures), (printed(noise) if self.constants == "thesis" else noise,))
