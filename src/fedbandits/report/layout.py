"""Where the nodes of a graph are drawn: the same graph always in the same way."""

from __future__ import annotations

import networkx as nx
import numpy as np

from fedbandits.contract.arrays import FloatArray, IntArray

_STRESSED = 200
"""Up to so many nodes a layout minimises stress (Kamada & Kawai, 1989); larger ones are relaxed from a spectral one."""
_RELAXATIONS = 80
_STRAIGHT = 20
"""Lines of more nodes than that are bent."""
_GAP = 0.08
"""Between the ends of a bent line, as a share of its length."""


def positions(n: int, edges: IntArray) -> FloatArray:
    """(n, 2) coordinates in the unit square of the nodes 0..n-1 that `edges` (E, 2) join.

    Components are laid out one by one, each with room in proportion to its size, and set on shelves, largest first.
    """
    graph: nx.Graph[int] = nx.empty_graph(n)
    graph.add_edges_from(map(tuple, edges.tolist()))
    components = sorted((sorted(nodes) for nodes in nx.connected_components(graph)), key=lambda own: (-len(own), own))
    sides = np.array([np.sqrt(len(nodes)) for nodes in components])
    corners = _on_shelves(sides)
    placed = np.empty((n, 2))
    for nodes, side, corner in zip(components, sides, corners, strict=True):
        placed[nodes] = corner + side * (0.05 + 0.9 * _component(graph.subgraph(nodes)))
    return _into_unit_square(placed)


def _on_shelves(sides: FloatArray) -> FloatArray:
    """(m, 2) corners of squares with these sides, the largest first, from left to right and from top to bottom."""
    width = max(float(sides[0]), float(np.sqrt((sides**2).sum())))
    corners, left, top, height = [], 0.0, 0.0, float(sides[0])
    for side in sides.tolist():
        if left + side > width + 1e-9:
            left, top, height = 0.0, top - height, side
        corners.append((left, top - side))
        left += side
    return np.array(corners)


def _component(graph: nx.Graph[int]) -> FloatArray:
    """(m, 2) a connected graph in the unit square, nodes in ascending order."""
    nodes = sorted(graph)
    size = len(nodes)
    if size == 1:
        return np.full((1, 2), 0.5)
    ordered: nx.Graph[int] = nx.Graph()
    ordered.add_nodes_from(nodes)
    ordered.add_edges_from(sorted((min(edge), max(edge)) for edge in graph.edges))
    if ordered.number_of_edges() == size * (size - 1) // 2:
        found = nx.circular_layout(ordered)
    elif size > _STRAIGHT and max(degree for _, degree in ordered.degree) <= 2:
        found = _on_a_circle(ordered)
    elif size <= _STRESSED:
        found = nx.kamada_kawai_layout(ordered)
    else:
        spectral = nx.spectral_layout(ordered)
        start = {node: spectral[node] + jolt for node, jolt in zip(nodes, _jolts(size), strict=True)}
        relaxed = nx.spring_layout(ordered, pos=start, iterations=_RELAXATIONS, seed=0)
        found = dict(zip(nodes, _drawn_in(np.array([relaxed[node] for node in nodes])), strict=True))
    return _into_unit_square(_upright(np.array([found[node] for node in nodes])))


def _jolts(size: int) -> FloatArray:
    """(size, 2) a little noise: springs cannot part nodes that a spectral layout has put on top of each other."""
    return 1e-3 * np.random.default_rng(0).standard_normal((size, 2))


def _on_a_circle(chain: nx.Graph[int]) -> dict[int, FloatArray]:
    """A ring, or a line bent to a ring with a gap, which gives many nodes more room than a straight one does."""
    ends = sorted(node for node, degree in chain.degree if degree == 1)
    order = list(nx.dfs_preorder_nodes(chain, ends[0] if ends else min(chain)))
    angle = 2 * np.pi * np.arange(len(order)) / (len(order) + (_GAP * len(order) if ends else 0))
    return dict(zip(order, np.column_stack([np.sin(angle), np.cos(angle)]), strict=True))


def _drawn_in(places: FloatArray) -> FloatArray:
    """The few that springs have thrown far out, nearer to the others, who would else have little room."""
    centred = places - places.mean(axis=0)
    radius = np.linalg.norm(centred, axis=1, keepdims=True)
    usual = np.quantile(radius, 0.95)
    return np.asarray(centred * np.where(radius > usual, (usual + 0.25 * (radius - usual)) / radius, 1.0))


def _upright(places: FloatArray) -> FloatArray:
    """Turned so that the longer axis lies horizontally."""
    centred = places - places.mean(axis=0)
    _, _, axes = np.linalg.svd(centred, full_matrices=False)
    return np.asarray(centred @ axes.T)


def _into_unit_square(places: FloatArray) -> FloatArray:
    low, high = places.min(axis=0), places.max(axis=0)
    extent = float((high - low).max()) or 1.0
    return np.asarray(0.5 + (places - (low + high) / 2) / extent)
