"""Where agents without a server live."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from fedbandits.contract.facts.fact import Fact

if TYPE_CHECKING:
    import networkx as nx


@dataclass(frozen=True)
class Place(Fact):
    """Who can talk to whom: a `graph` over the agents 0..n-1, on which messages live for `hops` hops.

    Told by the simulation, which draws the graph; no configuration file holds one.
    """

    name: ClassVar[str] = "place"

    graph: nx.Graph[int]
    hops: int = 1
