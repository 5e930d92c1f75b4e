"""What a network is to the simulator: a way to draw a graph, how long messages live on it, and what may befall them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal

import networkx as nx
import numpy as np
from pydantic import Field, model_validator

from fedbandits.contract.catalogue import ConfigError
from fedbandits.contract.parameters import parameters
from fedbandits.graphs.hops import diameter

Life = Annotated[int, Field(ge=0)] | Literal["diameter", "half-diameter", "half-diameter-up"]
"""A number of hops, or as many as the graph's diameter, or half of it: rounded down, but at least 1; or rounded up."""
Outliers = Literal["constant", "gaussian", "cauchy"]
"""What stands in a contaminated message instead of the reward: the number `outlier`; N(0, outlier^2); Cauchy with that
scale."""
Tamperer = Literal["uniform", "adaptive"]
"""How much each transmission adds: uniform in [0, tampering]; or what hurts most, given everything sent before:
-tampering for the arm that looks best so far, +tampering for every other."""


@dataclass(frozen=True, slots=True)
class AboutNetwork:
    """A catalogue entry."""

    name: str
    summary: str
    source: str


@dataclass(frozen=True, slots=True)
class Faults:
    """What may befall messages; see `Network` for the meaning of the fields."""

    loss: float = 0.0
    delay: float = 0.0
    delay_max: int = 0
    contamination: float = 0.0
    byzantine: float = 1.0
    outliers: Outliers = "constant"
    outlier: float = 10.0
    tampering: float = 0.0
    tamperer: Tamperer = "uniform"

    @property
    def corrupting(self) -> bool:
        """Whether the content of messages is changed."""
        return self.contamination > 0 or self.tampering > 0

    @property
    def any(self) -> bool:
        """Whether anything may befall a message."""
        return self.corrupting or self.loss > 0 or self.delay > 0


@parameters
class Network:
    """A graph of agents, and the conditions under which they talk on it.

    `ttl`: how many hops a message lives. `loss`: the chance that one transmission over one link fails. `delay`: the
    mean number of extra rounds a transmission takes, geometric and cut off at `delay_max`: min(G, delay_max) with
    P(G >= k) = q^k, where q makes that the mean (`mishaps.tails_of`). `contamination` (Huber): the chance that a
    message of a byzantine agent carries an outlier instead of the reward, as `outliers` and `outlier` say; `byzantine`
    is the share of agents that are, rounded down to whole agents. `tampering`: how much every transmission may change
    a reward, as the `tamperer` decides. An agent's own reward is always seen clean by itself. What is drawn belongs to
    the transmission, whichever algorithm makes it (`mishaps`); `flooding` has the rules in full.
    """

    ttl: Life = 1
    loss: Annotated[float, Field(ge=0, lt=1)] = 0.0
    delay: Annotated[float, Field(ge=0, allow_inf_nan=False)] = 0.0
    delay_max: Annotated[int, Field(ge=0)] = 0
    contamination: Annotated[float, Field(ge=0, lt=0.5)] = 0.0
    byzantine: Annotated[float, Field(ge=0, le=1)] = 1.0
    outliers: Outliers = "constant"
    outlier: Annotated[float, Field(allow_inf_nan=False)] = 10.0
    tampering: Annotated[float, Field(ge=0, allow_inf_nan=False)] = 0.0
    tamperer: Tamperer = "uniform"

    about: ClassVar[AboutNetwork]

    @model_validator(mode="after")
    def _delays_are_bounded(self) -> Network:
        if self.delay > 0 and self.delay_max < self.delay:
            raise ValueError(f"delay={self.delay} needs a delay_max above it (got {self.delay_max})")
        return self

    @property
    def faults(self) -> Faults:
        """What may befall messages."""
        return Faults(**{name: getattr(self, name) for name in Faults.__dataclass_fields__})

    def graph(self, n: int, seed: np.random.SeedSequence) -> nx.Graph[int]:
        """A graph of n nodes 0..n-1: the one that `seed` stands for."""
        drawn = self._draw(n, np.random.default_rng(seed))
        if drawn.number_of_nodes() != n:
            raise ConfigError(
                f"network: must have one node for each of {n} agents (got {drawn.number_of_nodes()} from "
                f"{self.about.name})"
            )
        return drawn

    def life(self, graph: nx.Graph[int]) -> int:
        """How many hops a message lives on `graph`."""
        if isinstance(self.ttl, int):
            return self.ttl
        across = diameter(graph)
        if self.ttl == "diameter":
            return across
        return max(1, across // 2) if self.ttl == "half-diameter" else (across + 1) // 2

    def _draw(self, n: int, rng: np.random.Generator) -> nx.Graph[int]:
        raise NotImplementedError


@parameters
class Given(Network):
    """A graph of your own: `nodes` agents and the `edges` between them. `Given.of` takes a networkx graph."""

    nodes: Annotated[int, Field(ge=1)]
    edges: tuple[tuple[int, int], ...] = ()

    about: ClassVar[AboutNetwork] = AboutNetwork("given", "a graph of your own", "any networkx graph")

    @classmethod
    def of(cls, graph: nx.Graph[int], **conditions: object) -> Given:
        """The network on `graph`, undirected and with nodes 0..n-1, under the given conditions (`ttl=2`, ...)."""
        n = graph.number_of_nodes()
        if graph.is_directed():
            raise ConfigError("network: the graph is directed; agents need an undirected one: graph.to_undirected()")
        if set(graph.nodes) != set(range(n)):
            raise ConfigError("network: nodes must be 0..n-1; use networkx.convert_node_labels_to_integers")
        edges = tuple((min(u, v), max(u, v)) for u, v in graph.edges if u != v)
        return cls(nodes=n, edges=tuple(sorted(set(edges))), **conditions)  # type: ignore[arg-type]

    @model_validator(mode="after")
    def _edges_are_between_nodes(self) -> Given:
        for u, v in self.edges:
            if not (0 <= u < self.nodes and 0 <= v < self.nodes and u != v):
                raise ValueError(f"edges: ({u}, {v}) does not join two of the nodes 0..{self.nodes - 1}")
        return self

    def _draw(self, n: int, rng: np.random.Generator) -> nx.Graph[int]:
        graph: nx.Graph[int] = nx.empty_graph(self.nodes)
        graph.add_edges_from(self.edges)
        return graph


def as_network(network: Network | nx.Graph[int]) -> Network:
    """`network` itself, or a bare graph with messages that live for one hop."""
    return network if isinstance(network, Network) else Given.of(network)
