"""Networks by public name: who is linked to whom.

All graphs drawn here are connected, as the theory takes for granted. A random graph that is not is drawn again, so that
it comes from its law given that it is connected; after `ATTEMPTS` draws in vain there is an error that says what to
change. Nodes are 0..n-1; `graph(n, seed)` is a function of n and the seed, for one version of networkx.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, ClassVar

import networkx as nx
import numpy as np
from pydantic import Field

from fedbandits.contract.catalogue import ConfigError, Registry
from fedbandits.contract.parameters import parameters
from fedbandits.graphs.network import AboutNetwork, Given, Network
from fedbandits.graphs.sampling import Method, largest_component, sample

if TYPE_CHECKING:
    from scipy import sparse

ATTEMPTS = 1_000
"""Draws of a random graph until it is connected."""
THESIS = "Dubey (2022), thesis"


@parameters
class Complete(Network):
    """Everybody is linked to everybody."""

    about: ClassVar[AboutNetwork] = AboutNetwork("complete", "everybody is linked to everybody", f"{THESIS}, ch. 2")

    def _draw(self, n: int, rng: np.random.Generator) -> nx.Graph[int]:
        graph: nx.Graph[int] = nx.complete_graph(n)
        return graph


@parameters
class Star(Network):
    """Agent 0 is linked to everybody else: a server that also decides."""

    about: ClassVar[AboutNetwork] = AboutNetwork("star", "agent 0 is linked to all others", f"{THESIS}, section 2.1")

    def _draw(self, n: int, rng: np.random.Generator) -> nx.Graph[int]:
        graph: nx.Graph[int] = nx.star_graph(n - 1)
        return graph


@parameters
class Line(Network):
    """Agent i is linked to agents i - 1 and i + 1."""

    about: ClassVar[AboutNetwork] = AboutNetwork("line", "each is linked to the next", f"{THESIS}, ch. 2")

    def _draw(self, n: int, rng: np.random.Generator) -> nx.Graph[int]:
        graph: nx.Graph[int] = nx.path_graph(n)
        return graph


@parameters
class Ring(Network):
    """Agent i is linked to agents i - 1 and i + 1, the last one to the first. Of two agents: one link."""

    about: ClassVar[AboutNetwork] = AboutNetwork("ring", "a line whose ends are linked", f"{THESIS}, ch. 2")

    def _draw(self, n: int, rng: np.random.Generator) -> nx.Graph[int]:
        graph: nx.Graph[int] = nx.cycle_graph(n) if n > 2 else nx.path_graph(n)
        return graph


@parameters
class Grid(Network):
    """Agents in rows of ceil(sqrt(n)), numbered row by row, linked to those beside, above and below.

    Where n does not fill the last row, that row is shorter.
    """

    about: ClassVar[AboutNetwork] = AboutNetwork("grid", "a nearly square lattice", "textbook")

    def _draw(self, n: int, rng: np.random.Generator) -> nx.Graph[int]:
        width = math.ceil(math.sqrt(n))
        graph: nx.Graph[int] = nx.empty_graph(n)
        graph.add_edges_from((node, node + 1) for node in range(n - 1) if (node + 1) % width)
        graph.add_edges_from((node, node + width) for node in range(n - width))
        return graph


@parameters
class Tree(Network):
    """A balanced tree with root 0: every agent has `branching` children, and the lowest level fills from the left."""

    branching: Annotated[int, Field(ge=1)] = 2

    about: ClassVar[AboutNetwork] = AboutNetwork("tree", "a balanced tree", "textbook")

    def _draw(self, n: int, rng: np.random.Generator) -> nx.Graph[int]:
        return nx.full_rary_tree(self.branching, n)


@parameters
class RandomTree(Network):
    """A tree drawn uniformly among the n^(n-2) trees on n numbered nodes."""

    about: ClassVar[AboutNetwork] = AboutNetwork(
        "random-tree", "a uniformly random tree", "Madhushani, Dubey, Leonard & Pentland (2021)"
    )

    def _draw(self, n: int, rng: np.random.Generator) -> nx.Graph[int]:
        return nx.random_labeled_tree(n, seed=_seed(rng))


@parameters
class MultiStar(Network):
    """Stars of nearly equal size whose hubs are all linked to each other.

    Agents 0..hubs-1 are the hubs, and agent i >= hubs is linked to hub i mod hubs alone. The publication names
    multi-star graphs without constructing them; this is our reading.
    """

    hubs: Annotated[int, Field(ge=1)] = 5

    about: ClassVar[AboutNetwork] = AboutNetwork(
        "multi-star", "stars whose hubs are linked", "Madhushani, Dubey, Leonard & Pentland (2021)"
    )

    def _draw(self, n: int, rng: np.random.Generator) -> nx.Graph[int]:
        _fits(self, "hubs", self.hubs <= n, f"at most {n}, the number of agents")
        graph: nx.Graph[int] = nx.complete_graph(self.hubs)
        graph.add_edges_from((node, node % self.hubs) for node in range(self.hubs, n))
        return graph


@parameters
class Caveman(Network):
    """Cliques in a ring, each linked to the next by a single link (Watts, 1999).

    The agents are divided, in their order, into as few cliques of at most `size` as will do, as equal as possible. The
    link between the first two members of each clique is taken from them and goes from the first to the last
    member of the clique before; a clique of two keeps its link as well. One clique alone is left whole.
    """

    size: Annotated[int, Field(ge=2)] = 5

    about: ClassVar[AboutNetwork] = AboutNetwork("caveman", "a ring of cliques", "Watts (1999)")

    def _draw(self, n: int, rng: np.random.Generator) -> nx.Graph[int]:
        cliques = np.array_split(np.arange(n), math.ceil(n / self.size))
        graph: nx.Graph[int] = nx.empty_graph(n)
        for clique in cliques:
            graph.add_edges_from(nx.complete_graph(clique.tolist()).edges)
        for clique in cliques if len(cliques) > 1 else ():
            first = int(clique[0])
            if len(clique) > 2:
                graph.remove_edge(first, first + 1)
            graph.add_edge(first, (first - 1) % n)
        return graph


@parameters
class Regular(Network):
    """Drawn among the graphs in which every agent has `degree` links, nearly uniformly (Steger & Wormald, 1999)."""

    degree: Annotated[int, Field(ge=2)] = 4

    about: ClassVar[AboutNetwork] = AboutNetwork("regular", "everybody has equally many links", f"{THESIS}, ch. 2")

    def _draw(self, n: int, rng: np.random.Generator) -> nx.Graph[int]:
        _fits(self, "degree", self.degree < n, f"below {n}, the number of agents")
        _fits(self, "degree", n * self.degree % 2 == 0, f"even for an odd number of agents, {n}")
        return _connected(
            self, lambda: nx.random_regular_graph(self.degree, n, seed=_seed(rng)), "degree: raise it to 3 or more"
        )


@parameters
class ErdosRenyi(Network):
    """Every two agents are linked with chance `p`, independently; given that the graph is connected.

    Graphs are rarely connected where p is below ln(n) / n.
    """

    p: Annotated[float, Field(gt=0, le=1)] = 0.1

    about: ClassVar[AboutNetwork] = AboutNetwork(
        "erdos-renyi", "every two are linked with chance p", f"{THESIS}, sections 3.5 and 4.4 (p = 0.1 and 0.7)"
    )

    def _draw(self, n: int, rng: np.random.Generator) -> nx.Graph[int]:
        fix = f"p: raise it above ln(n) / n = {math.log(n) / n:.2g}"
        return _connected(self, lambda: nx.fast_gnp_random_graph(n, self.p, seed=_seed(rng)), fix)


@parameters
class BarabasiAlbert(Network):
    """Agents join one by one, each linked to `m` others, preferring those with many links (preferential attachment).

    The first to join finds m others waiting, so that n agents have m (n - m) links.
    """

    m: Annotated[int, Field(ge=1)] = 5

    about: ClassVar[AboutNetwork] = AboutNetwork(
        "barabasi-albert", "newcomers link to m others, preferring hubs", f"{THESIS}, section 4.4 (m = 5)"
    )

    def _draw(self, n: int, rng: np.random.Generator) -> nx.Graph[int]:
        _fits(self, "m", self.m < n, f"below {n}, the number of agents")
        return nx.barabasi_albert_graph(n, self.m, seed=_seed(rng))


@parameters
class WattsStrogatz(Network):
    """A ring in which everybody is linked to the `k` nearest; then each link's far end is moved with chance `p`.

    Given that the graph is connected: a small world.
    """

    k: Annotated[int, Field(ge=2, multiple_of=2)] = 4
    p: Annotated[float, Field(ge=0, le=1)] = 0.1

    about: ClassVar[AboutNetwork] = AboutNetwork(
        "watts-strogatz", "a ring of neighbours with shortcuts", "Watts & Strogatz (1998)"
    )

    def _draw(self, n: int, rng: np.random.Generator) -> nx.Graph[int]:
        _fits(self, "k", self.k < n, f"below {n}, the number of agents")
        return _connected(
            self, lambda: nx.watts_strogatz_graph(n, self.k, self.p, seed=_seed(rng)), "k: raise it; or lower p"
        )


@parameters
class _Sampled(Network):
    """A connected sample of as many nodes as there are agents, by the method `sampling`; see `network.sampling`."""

    sampling: Method = "walk"

    def _links(self) -> sparse.csr_array:
        raise NotImplementedError

    def _draw(self, n: int, rng: np.random.Generator) -> nx.Graph[int]:
        links = self._links()
        largest = len(largest_component(links))
        if n > largest:
            raise ConfigError(
                f"{self.about.name}: its largest connected component has {largest} nodes, too few for {n} agents; "
                f"have at most {largest} agents"
            )
        return sample(links, n, self.sampling, rng)


@parameters
class EdgeList(_Sampled):
    """A connected sample of the graph in the file `path`: lines `u v`, for instance one of SNAP's.

    Links hold both ways; lines that begin with `#` are passed over (`data.graphs.read_links`). The sample is taken from
    the largest connected component, by the method `sampling` (`network.sampling`): if that has as many nodes as there
    are agents, it is all of it.
    """

    path: Annotated[str, Field(min_length=1)]

    about: ClassVar[AboutNetwork] = AboutNetwork(
        "edge-list", "a sample of the graph in a file", "any file of u v lines"
    )

    @property
    def reads(self) -> tuple[Path, ...]:
        """The file."""
        return (Path(self.path),)

    def _links(self) -> sparse.csr_array:
        from fedbandits.data.graphs import read_links

        return read_links(Path(self.path))


@parameters
class Facebook(_Sampled):
    """A connected sample of ego-Facebook: friends of ten people, 4,039 in all, and the friendships among them.

    The thesis takes "subgraphs of 500 nodes" and does not say how; we sample as `sampling` says (`network.sampling`).
    """

    about: ClassVar[AboutNetwork] = AboutNetwork(
        "facebook", "a sample of 4,039 friends", f"SNAP ego-Facebook, McAuley & Leskovec (2012); {THESIS}, section 4.4"
    )

    def _links(self) -> sparse.csr_array:
        from fedbandits.data.graphs import published

        return published("facebook")


@parameters
class Gnutella(_Sampled):
    """A connected sample of p2p-Gnutella08: 6,301 hosts of a file-sharing network; connections hold both ways.

    The thesis uses p2p-Gnutella04, a snapshot of the same network four days before, takes "subgraphs of 500 nodes" and
    does not say how; we sample as `sampling` says (`network.sampling`).
    """

    about: ClassVar[AboutNetwork] = AboutNetwork(
        "gnutella",
        "a sample of 6,301 hosts",
        f"SNAP p2p-Gnutella08, Ripeanu, Foster & Iamnitchi (2002); {THESIS}, section 4.4",
    )

    def _links(self) -> sparse.csr_array:
        from fedbandits.data.graphs import published

        return published("gnutella")


NETWORKS: Registry[Network] = Registry(
    "network",
    "fedbandits.networks",
    (
        Complete,
        Star,
        Line,
        Ring,
        Grid,
        Tree,
        RandomTree,
        MultiStar,
        Caveman,
        Regular,
        ErdosRenyi,
        BarabasiAlbert,
        WattsStrogatz,
        Facebook,
        Gnutella,
        EdgeList,
        Given,
    ),
    needs=("graph", "life"),
)


def _seed(rng: np.random.Generator) -> int:
    return int(rng.integers(2**63))


def _fits(network: Network, field: str, holds: bool, wanted: str) -> None:
    if not holds:
        raise ConfigError(f"{network.about.name}: {field}: must be {wanted} (got {getattr(network, field)})")


def _connected(network: Network, draw: Callable[[], nx.Graph[int]], fix: str) -> nx.Graph[int]:
    for _ in range(ATTEMPTS):
        graph = draw()
        if nx.is_connected(graph):
            return graph
    n = graph.number_of_nodes()
    raise ConfigError(f"{network.about.name}: none of {ATTEMPTS} graphs of {n} agents was connected; {fix}")
