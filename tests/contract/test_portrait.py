"""Portraits: what servers show, what is kept of it, and what it got wrong."""

import networkx as nx
import numpy as np
import pytest

import fedbandits as fb
from conformance.typical import typical_first
from fedbandits.algorithms import ALGORITHMS
from fedbandits.contract import portrait
from fedbandits.contract.portrait import (
    EDGES,
    KNOWN,
    OMITTED,
    TRUTH,
    Mistakes,
    bounded,
    from_bytes,
    links,
    mistakes,
    to_bytes,
)
from fedbandits.findings.results import Results
from fedbandits.simulation.loop import Simulation
from fedbandits.studies.compare import comparison

ENV = fb.environments.ENVIRONMENTS["clustered-linear"](clients=8, dim=3, arms=5, pool=50, clusters=2, gamma=1.0)
SHOWN = [name for name, kind in ALGORITHMS.items() if kind.about.family == "clustered"]


def test_mistakes_count_pairs_once():
    truth = np.array([0, 0, 1, 1])
    graph = np.zeros((4, 4), dtype=bool)
    graph[0, 2] = graph[2, 0] = graph[2, 3] = graph[3, 2] = True
    assert mistakes(graph, truth) == Mistakes(joined=1, separated=1, different=4, alike=2)


@pytest.mark.parametrize("name", typical_first(SHOWN))
def test_clustered_servers_show_a_graph_beside_the_truth(name):
    simulation = Simulation(ALGORITHMS[name](), ENV, 120, seed=1)
    simulation.run()
    shown = simulation.trace().portrait
    graph = shown["graph"]
    assert graph.shape == (8, 8)
    assert graph.dtype == np.bool_
    assert (graph == graph.T).all()
    assert not graph.diagonal().any()
    assert tuple(shown[TRUTH]) == simulation.world.truth().clusters
    if "clusters" in shown:
        members = shown["clusters"]
        assert members.any(axis=0).all()
        together = (members.T.astype(int) @ members > 0) & ~np.eye(8, dtype=bool)
        assert (graph | ~together).all()  # whoever shares a cluster passed the test
    graph[...] = ~graph
    assert (simulation.trace().portrait["graph"] != graph).all()  # a copy was shown


def test_the_oracle_makes_no_mistakes_and_others_show_nothing():
    shown = fb.simulate(ALGORITHMS["oracle-clusters"](), ENV, 10).portrait
    found = mistakes(shown["graph"], shown[TRUTH])
    assert (found.joined, found.separated) == (0, 0)
    assert found.alike > 0
    assert fb.simulate(fb.algorithms.DisLinUCB(), ENV, 10).portrait == {}


def test_the_truth_is_that_of_the_last_step():
    drift = fb.environments.ENVIRONMENTS["clustered-drift"](
        clients=12, dim=3, arms=5, pool=50, clusters=2, gamma=1.0, at=0.5, movers=0.5
    )
    simulation = Simulation(ALGORITHMS["club"](), drift, 20, seed=0)
    simulation.run(10)
    before = simulation.trace().portrait[TRUTH]
    simulation.run(1)
    after = simulation.trace().portrait[TRUTH]
    assert tuple(before) == simulation.world.truth().clusters
    assert (before != after).sum() == 6
    theta = simulation.world._after.theta
    alike = np.linalg.norm(theta[:, None] - theta[None], axis=2) < 0.5
    assert (alike == (after[:, None] == after[None, :])).all()


def test_bytes_and_back():
    held = {"graph": np.eye(3, dtype=bool), OMITTED: np.array(["clusters"])}
    again = from_bytes(to_bytes(held))
    assert set(again) == set(held)
    for name, array in held.items():
        np.testing.assert_array_equal(again[name], array)
    assert from_bytes(to_bytes({})) == {}


def test_what_is_too_large_is_named_instead(monkeypatch):
    monkeypatch.setattr(portrait, "LARGEST", 9)
    kept = bounded({"graph": np.eye(4, dtype=bool), TRUTH: np.zeros(4, dtype=int)})
    assert set(kept) == {TRUTH, OMITTED}
    assert kept[OMITTED].tolist() == ["graph"]


def test_results_hold_portraits_and_the_store_keeps_them(tmp_path):
    algorithms = {"club": ALGORITHMS["club"](), "alone": fb.algorithms.IndependentLinUCB()}
    direct = comparison(algorithms, ENV, 20, seeds=2, out=tmp_path)
    loaded = Results.load(tmp_path)
    assert [(one.label, one.seed) for one in direct.portraits] == [("club", 0), ("club", 1)]
    assert [(one.label, one.seed) for one in loaded.portraits] == [("club", 0), ("club", 1)]
    for one, other in zip(direct.portraits, loaded.portraits, strict=True):
        assert set(one.arrays) == {"graph", TRUTH} == set(other.arrays)
        for name in one.arrays:
            np.testing.assert_array_equal(one.arrays[name], other.arrays[name])


def test_links_are_each_pair_once():
    graph = nx.Graph([(3, 1), (1, 3), (2, 2), (0, 3)])
    assert links(graph).tolist() == [[0, 3], [1, 3]]
    assert links(nx.empty_graph(4)).shape == (0, 2)
    assert links(nx.empty_graph(4)).dtype == np.int64


def test_too_many_links_are_left_out_but_not_what_agents_know():
    many = np.zeros((portrait.LARGEST // 2 + 1, 2), dtype=np.int64)
    kept = bounded({EDGES: many, KNOWN: np.ones(600)})
    assert set(kept) == {KNOWN, OMITTED}
    assert bounded({EDGES: many[1:]}).keys() == {EDGES}
