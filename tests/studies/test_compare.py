"""Comparisons: tidy, paired, the same however many jobs share the work."""

import networkx as nx
import numpy as np
import pytest

import fedbandits as fb
from conformance.gossip import GossipLinUCB
from fedbandits.findings.results import Results
from fedbandits.graphs.network import Given
from fedbandits.studies.compare import comparison

ENV = fb.environments.Linear(clients=3, dim=4, arms=5, pool=20)
RING = Given.of(nx.cycle_graph(3), ttl=2)
BOTH = {"dis": fb.algorithms.DisLinUCB(threshold=1.0), "alone": fb.algorithms.IndependentLinUCB()}


def test_one_tidy_row_per_algorithm_seed_and_step():
    frame = fb.compare(BOTH, ENV, horizon=30, seeds=[3, 1], points=None)
    assert len(frame) == 2 * 2 * 30
    assert not frame.duplicated(["algorithm", "seed", "step"]).any()
    assert list(frame["algorithm"].unique()) == ["dis", "alone"]
    for label, algorithm in BOTH.items():
        for seed in (3, 1):
            own = frame[(frame["algorithm"] == label) & (frame["seed"] == seed)]
            trace = fb.simulate(algorithm, ENV, horizon=30, seed=seed)
            np.testing.assert_array_equal(own["regret"], trace.regret)
            np.testing.assert_array_equal(own["down_bytes"], trace.downlink.bytes)
            assert (own["clients"] == 3).all()


def test_a_number_of_seeds_counts_from_zero_and_thinning_keeps_the_end():
    frame = fb.compare({"alone": BOTH["alone"]}, ENV, horizon=50, seeds=2, points=7)
    assert sorted(frame["seed"].unique()) == [0, 1]
    assert frame.groupby("seed")["step"].max().tolist() == [50, 50]
    assert len(frame) == 14


def test_same_seed_same_world_for_every_algorithm():
    """Two labels of one algorithm agree; what another algorithm loses is exactly what it does not earn.

    On common random numbers reward + regret is the sum of the best means and the noise, whoever chooses.
    """
    frame = fb.compare({**BOTH, "again": BOTH["dis"]}, ENV, horizon=40, seeds=3)
    parts = {label: part.reset_index(drop=True) for label, part in frame.groupby("algorithm")}
    np.testing.assert_array_equal(parts["dis"]["regret"], parts["again"]["regret"])
    totals = {label: part["regret"] + part["reward"] for label, part in parts.items()}
    np.testing.assert_allclose(totals["dis"], totals["alone"], rtol=1e-12)
    assert not np.allclose(parts["dis"]["regret"], parts["alone"]["regret"])


@pytest.mark.slow
def test_two_jobs_give_the_same_bits_as_one():
    three = {**BOTH, "gossip": GossipLinUCB()}
    one = fb.compare(three, ENV, horizon=60, seeds=2, network=RING)
    two = fb.compare(three, ENV, horizon=60, seeds=2, network=RING, jobs=2)
    assert one.drop(columns="seconds").equals(two.drop(columns="seconds"))


class Log:
    def __init__(self):
        self.calls = []

    def begin(self, tasks):
        self.calls.append(("begin", len(tasks)))

    def advance(self, index, steps_done):
        self.calls.append(("advance", index, steps_done))

    def finish(self, index, resumed):
        self.calls.append(("finish", index, resumed))


def test_watcher_sees_every_task_and_what_was_resumed(tmp_path):
    for seeds, found in ((1, []), (2, [0, 1])):
        log = Log()
        fb.compare(BOTH, ENV, horizon=20, seeds=seeds, out=tmp_path / "out", progress=log)
        assert log.calls[0] == ("begin", 2 * seeds)
        finished = {call[1]: call[2] for call in log.calls if call[0] == "finish"}
        assert finished == {index: index in found for index in range(2 * seeds)}
        for index in set(finished) - set(found):
            assert ("advance", index, 20) in log.calls
            assert log.calls.index(("advance", index, 20)) < log.calls.index(("finish", index, False))


def test_results_come_back_from_disk_as_they_were(tmp_path):
    fresh = comparison(BOTH, ENV, horizon=20, seeds=3, out=tmp_path / "out")
    loaded = Results.load(tmp_path / "out")
    assert loaded.frame.equals(fresh.frame)
    assert loaded.settings == fresh.settings
    assert (loaded.missing, fresh.missing) == (0, 0)
    assert loaded.settings["algorithms"]["dis"]["threshold"] == 1.0
    assert loaded.settings["seeds"] == [0, 1, 2]


def test_summary_is_mean_and_standard_error_of_the_last_steps():
    results = comparison(BOTH, ENV, horizon=20, seeds=4)
    final = results.final()
    assert len(final) == 8
    assert (final["step"] == 20).all()
    dis = final.loc[final["algorithm"] == "dis", "regret"]
    row = results.summary().set_index("algorithm").loc["dis"]
    assert row["runs"] == 4
    assert row["regret"] == pytest.approx(dis.mean())
    assert row["regret_se"] == pytest.approx(np.std(dis, ddof=1) / 2)
    assert row["decisions_per_second"] > 0


@pytest.mark.parametrize(
    ("changes", "match"),
    [
        ({"seeds": 0}, "seeds: must be at least 1"),
        ({"seeds": [1, 1]}, "seeds: must be different"),
        ({"seeds": []}, "at least one"),
        ({"seeds": [-1]}, "none of them negative"),
        ({"jobs": 0}, "jobs: must be at least 1"),
        ({"points": 0}, "points: must be at least 1"),
        ({"engine": "rey"}, "unknown engine 'rey'; known are: local, ray"),
        ({"horizon": 0}, "horizon: must be at least 1"),
        ({"algorithms": {}}, "algorithms: none given"),
    ],
)
def test_bad_input_is_named_before_anything_is_written(changes, match, tmp_path):
    given = {"algorithms": BOTH, "environment": ENV, "horizon": 10, "seeds": 1, "out": tmp_path / "out"} | changes
    with pytest.raises(fb.ConfigError, match=match):
        fb.compare(**given)
    assert not (tmp_path / "out").exists()


def test_everybody_runs_on_the_network_and_those_with_a_server_ignore_it():
    results = comparison({"gossip": GossipLinUCB(), **BOTH}, ENV, 40, seeds=2, network=RING, points=None)
    plain = fb.compare(BOTH, ENV, 40, seeds=2, points=None)
    assert results.settings["network"]["ttl"] == 2
    for label in BOTH:
        own, alone = (frame[frame["algorithm"] == label] for frame in (results.frame, plain))
        np.testing.assert_array_equal(own["regret"], alone["regret"])
    gossip = results.frame[(results.frame["algorithm"] == "gossip") & (results.frame["seed"] == 1)]
    trace = fb.simulate(GossipLinUCB(), ENV, 40, seed=1, network=RING)
    np.testing.assert_array_equal(gossip["regret"], trace.regret)
    assert gossip["peer_messages"].iloc[-1] == trace.peerlink.messages[-1] > 0


def test_what_is_compared_is_given_as_values_as_classes_or_in_words():
    words = fb.compare(["random", "dislinucb:threshold=1"], "linear:clients=3,dim=4,arms=5,pool=20", 20, seeds=1)
    values = fb.compare({"random": fb.algorithms.Random, "dislinucb": BOTH["dis"]}, ENV, 20, seeds=1)
    assert words.drop(columns="seconds").equals(values.drop(columns="seconds"))
    in_words = fb.compare([GossipLinUCB], ENV, 20, seeds=1, network="ring:ttl=2")
    assert in_words["peer_messages"].iloc[-1] > 0
    same = fb.compare([GossipLinUCB()], ENV, 20, seeds=1, network=fb.network.Ring(ttl=2))
    assert in_words.drop(columns="seconds").equals(same.drop(columns="seconds"))


def test_a_network_that_nobody_uses_is_refused_before_anything_is_written(tmp_path):
    with pytest.raises(fb.ConfigError, match=r"^network: dis talks to a server and alone talks to nobody"):
        fb.compare(BOTH, ENV, 20, seeds=1, network="ring", out=tmp_path / "out")
    assert not (tmp_path / "out").exists()
    with pytest.raises(fb.ConfigError, match=r"^network: dislinucb talks to a server, so that it would not be used"):
        fb.simulate("dislinucb", ENV, 20, network="ring")


def test_options_are_those_of_a_simulation(tmp_path):
    packed = {"wire": fb.Wire(packed=True), "coverage": True}
    results = comparison({"dis": BOTH["dis"]}, ENV, 20, seeds=1, points=None, out=tmp_path / "out", **packed)
    trace = fb.simulate(BOTH["dis"], ENV, 20, **packed)
    np.testing.assert_array_equal(results.frame["bytes"], trace.bytes)
    np.testing.assert_array_equal(results.frame["coverage"], trace.frame()["coverage"])
    assert results.settings["run"] == {"horizon": 20, "points": None, "coverage": True, "packed": True}
    with pytest.raises(fb.ConfigError, match=r"run\.packed: true there, nothing now"):
        fb.compare({"dis": BOTH["dis"]}, ENV, 20, seeds=1, points=None, out=tmp_path / "out", coverage=True)
    with pytest.raises(fb.ConfigError, match="there is no option 'converage'; did you mean 'coverage'"):
        fb.compare(BOTH, ENV, 20, seeds=1, converage=True)


def test_a_bare_graph_is_a_network_of_one_hop():
    bare = fb.compare({"gossip": GossipLinUCB()}, ENV, 30, seeds=1, network=nx.cycle_graph(3))
    same = fb.compare({"gossip": GossipLinUCB()}, ENV, 30, seeds=1, network=Given.of(nx.cycle_graph(3), ttl=1))
    assert bare.drop(columns="seconds").equals(same.drop(columns="seconds"))


def test_who_needs_a_network_is_told_before_anything_is_written(tmp_path):
    with pytest.raises(fb.ConfigError, match=r"^peers: sample-gossip talks on a graph: give a network"):
        fb.compare({**BOTH, "peers": GossipLinUCB()}, ENV, 10, seeds=1, out=tmp_path / "out")
    assert not (tmp_path / "out").exists()
    with pytest.raises(fb.ConfigError, match="peers, seed 0: network: must have one node for each of 3 agents"):
        fb.compare({"peers": GossipLinUCB()}, ENV, 10, seeds=1, network=nx.path_graph(4))


def test_networked_results_come_back_from_disk_as_they_were(tmp_path):
    fresh = comparison({"gossip": GossipLinUCB()}, ENV, 20, seeds=2, network=RING, out=tmp_path / "out")
    loaded = Results.load(tmp_path / "out")
    assert loaded.frame.equals(fresh.frame)
    assert loaded.settings == fresh.settings
    again = comparison({"gossip": GossipLinUCB()}, ENV, 20, seeds=2, network=RING, out=tmp_path / "out")
    assert again.frame.equals(fresh.frame)
