"""Layouts: inside the square, the same every time, and shapes that people recognise."""

from __future__ import annotations

import networkx as nx
import numpy as np
import pytest
from scipy.spatial.distance import pdist

from fedbandits.contract.portrait import links
from fedbandits.report.layout import positions

GRAPHS = {
    "one": nx.empty_graph(1),
    "pair": nx.path_graph(2),
    "empty": nx.empty_graph(9),
    "line": nx.path_graph(60),
    "ring": nx.cycle_graph(250),
    "star": nx.star_graph(30),
    "complete": nx.complete_graph(12),
    "scattered": nx.gnp_random_graph(80, 0.01, seed=1),
    "large tree": nx.random_labeled_tree(260, seed=2),
    "large grid": nx.convert_node_labels_to_integers(nx.grid_2d_graph(15, 15)),
}


@pytest.mark.parametrize("graph", GRAPHS.values(), ids=GRAPHS)
def test_nodes_lie_apart_in_the_unit_square(graph: nx.Graph) -> None:
    n = graph.number_of_nodes()
    places = positions(n, links(graph))
    assert places.shape == (n, 2)
    assert places.min() >= -1e-9
    assert places.max() <= 1 + 1e-9
    assert np.ptp(places, axis=0).max() == pytest.approx(1.0 if n > 1 else 0.0)
    if n > 1:
        assert pdist(places).min() > 1e-4
    np.testing.assert_array_equal(places, positions(n, links(graph)))


@pytest.mark.parametrize("n", [60, 250])
def test_rings_and_long_lines_are_round(n: int) -> None:
    for graph in (nx.cycle_graph(n), nx.path_graph(n)):
        places = positions(n, links(graph))
        gaps = np.linalg.norm(np.diff(places, axis=0), axis=1)
        assert gaps.std() < 1e-6
        assert np.linalg.norm(places - places.mean(axis=0), axis=1).min() > 0.3


def test_the_order_in_which_links_are_named_does_not_matter() -> None:
    graph = nx.gnp_random_graph(30, 0.15, seed=4)
    edges = links(graph)
    np.testing.assert_array_equal(positions(30, edges), positions(30, edges[::-1]))


def test_components_do_not_overlap() -> None:
    graph = nx.disjoint_union_all([nx.cycle_graph(12), nx.complete_graph(6), nx.path_graph(3), nx.empty_graph(4)])
    places = positions(25, links(graph))
    boxes = [
        (places[sorted(own)].min(axis=0), places[sorted(own)].max(axis=0)) for own in nx.connected_components(graph)
    ]
    for at, (low, high) in enumerate(boxes):
        for other_low, other_high in boxes[:at]:
            assert (low > other_high).any() or (high < other_low).any()
