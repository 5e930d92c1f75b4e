"""The results directory: complete files only, resumed where they fit, refused where they do not."""

import hashlib
import json
import os

import networkx as nx
import numpy as np
import pyarrow.parquet as pq
import pytest

import fedbandits as fb
from conformance.gossip import GossipLinUCB
from fedbandits.contract.catalogue import ConfigError
from fedbandits.contract.description import describe, plain
from fedbandits.findings.records import read_record, write_settings
from fedbandits.findings.results import Results
from fedbandits.graphs.network import Given
from fedbandits.simulation.options import RunOptions
from fedbandits.studies.store import Store
from fedbandits.studies.tasks import Task, fingerprint

ENV = fb.environments.Linear(clients=3, dim=2, arms=3)
LATER = ["coverage", "epsilon", "upper_bound", "lower_bound"]
"""Columns that earlier versions did not keep."""
ALGORITHMS = {"dis": fb.algorithms.DisLinUCB(threshold=1.0), "Random / other": fb.algorithms.Random()}


def run(out, algorithms=ALGORITHMS, environment=ENV, horizon=20, seeds=2, **more):
    return fb.compare(algorithms, environment, horizon, seeds, out=out, **more)


def files(out):
    return {path.name: path.stat().st_mtime_ns for path in (out / "runs").iterdir()}


def test_every_run_has_a_file_that_says_what_it_is(tmp_path):
    run(tmp_path / "out")
    names = sorted(files(tmp_path / "out"))
    assert len(names) == 4
    assert names[:2] == ["dis--seed-0.parquet", "dis--seed-1.parquet"]
    record = read_record(tmp_path / "out" / "runs" / "dis--seed-1.parquet")
    trace = fb.simulate(ALGORITHMS["dis"], ENV, 20, seed=1)
    assert (record.label, record.point, record.seed) == ("dis", {}, 1)
    assert record.fingerprint == fingerprint(Task("whatever", ALGORITHMS["dis"], ENV, 20, 1))
    np.testing.assert_array_equal(record.run.regret_by_client, trace.regret_by_client)
    np.testing.assert_array_equal(record.run.frame["regret"], trace.regret)


def test_finished_runs_are_not_run_again_and_more_seeds_extend(tmp_path):
    first = run(tmp_path / "out")
    before = files(tmp_path / "out")
    second = run(tmp_path / "out", seeds=3)
    after = files(tmp_path / "out")
    assert len(after) == 6
    assert {name: after[name] for name in before} == before
    assert (
        second[second["seed"] < 2].reset_index(drop=True)["regret"].equals(first["regret"])
    )  # and the stored seconds are those of the first time
    assert set(first["seconds"]) < set(second["seconds"])
    run(tmp_path / "out", seeds=1)
    assert Results.load(tmp_path / "out").settings["seeds"] == [0, 1, 2]


@pytest.mark.parametrize("damage", ["truncate", "garbage", "empty", "stranger"])
def test_damaged_files_are_run_again_with_a_notice(tmp_path, damage):
    whole = run(tmp_path / "out")
    before = files(tmp_path / "out")
    path = tmp_path / "out" / "runs" / "dis--seed-0.parquet"
    content = path.read_bytes()
    if damage == "stranger":
        whole.to_parquet(path)
    else:
        path.write_bytes({"truncate": content[: len(content) // 2], "garbage": b"PAR1" * 50, "empty": b""}[damage])
    os.utime(path, ns=(0, 0))
    with pytest.warns(UserWarning, match="dis--seed-0.parquet is corrupt or truncated.* running dis, seed 0 again"):
        again = run(tmp_path / "out")
    assert again.drop(columns="seconds").equals(whole.drop(columns="seconds"))
    after = files(tmp_path / "out")
    assert after[path.name] > 0
    assert all(after[name] == before[name] for name in before if name != path.name)


def test_damaged_files_are_left_out_of_what_is_loaded(tmp_path):
    run(tmp_path / "out")
    (tmp_path / "out" / "runs" / "dis--seed-0.parquet").write_bytes(b"")
    with pytest.warns(UserWarning, match="left out"):
        loaded = Results.load(tmp_path / "out")
    assert loaded.missing == 1
    assert len(loaded.final()) == 3


@pytest.mark.parametrize(
    ("changes", "difference"),
    [
        ({"horizon": 21}, r"run\.horizon: 20 there, 21 now"),
        ({"points": 5}, r"run\.points: 200 there, 5 now"),
        ({"environment": fb.environments.Linear(clients=3, dim=3, arms=3)}, r"environment\.dim: 2 there, 3 now"),
        (
            {"algorithms": {**ALGORITHMS, "dis": fb.algorithms.DisLinUCB(threshold=2.0)}},
            r"algorithms\.dis\.threshold: 1",
        ),
        ({"algorithms": {**ALGORITHMS, "new": fb.algorithms.Random()}}, r"algorithms\.new: nothing there"),
    ],
)
def test_results_of_other_settings_are_refused_and_kept(tmp_path, changes, difference):
    run(tmp_path / "out")
    before = files(tmp_path / "out")
    settings = (tmp_path / "out" / "settings.json").read_text()
    with pytest.raises(ConfigError, match=rf"{difference}.*choose another directory, or remove it"):
        run(tmp_path / "out", **changes)
    assert files(tmp_path / "out") == before
    assert (tmp_path / "out" / "settings.json").read_text() == settings


def test_a_file_of_other_settings_among_the_right_ones_is_refused(tmp_path):
    run(tmp_path / "a", seeds=1)
    run(tmp_path / "b", seeds=1, horizon=10)
    name = "dis--seed-0.parquet"
    (tmp_path / "a" / "runs" / name).write_bytes((tmp_path / "b" / "runs" / name).read_bytes())
    with pytest.raises(ConfigError, match=f"{name} holds a result of other settings"):
        run(tmp_path / "a", seeds=1)


def test_fingerprint_depends_on_everything_that_matters_and_nothing_else():
    base = {"label": "a", "algorithm": ALGORITHMS["dis"], "environment": ENV, "horizon": 5, "seed": 0}
    same = fingerprint(Task(**base))
    assert fingerprint(Task(**{**base, "label": "b"})) == same
    for change in (
        {"algorithm": fb.algorithms.DisLinUCB(threshold=1.5)},
        {"algorithm": fb.algorithms.CentralLinUCB()},
        {"environment": fb.environments.Linear(clients=3, dim=2, arms=3, noise=0.2)},
        {"horizon": 6},
        {"seed": 1},
        {"points": None},
        {"options": RunOptions(network=Given.of(nx.path_graph(3)))},
        {"options": RunOptions(theory=True)},
        {"options": RunOptions(coverage=True)},
        {"options": RunOptions(wire=fb.Wire(packed=True))},
    ):
        assert fingerprint(Task(**{**base, **change})) != same


NETWORK = Given.of(nx.path_graph(3), ttl=2)


@pytest.mark.parametrize(
    ("options", "more"),
    [
        (RunOptions(), {}),
        (RunOptions(network=NETWORK), {"network": describe(NETWORK)}),
        (RunOptions(theory=True, coverage=True), {"theory": True, "coverage": True}),
        (RunOptions(wire=fb.Wire()), {}),
    ],
)
def test_fingerprints_are_what_they_were_before_there_were_options(options, more):
    basis = {
        "version": fb.__version__,
        "algorithm": describe(ALGORITHMS["dis"]),
        "environment": describe(ENV),
        "horizon": 5,
        "seed": 0,
        "points": 200,
        "coverage": False,
    }
    expected = hashlib.sha256(json.dumps(basis | more, sort_keys=True).encode()).hexdigest()
    assert fingerprint(Task("a", ALGORITHMS["dis"], ENV, 5, 0, options=options)) == expected


@pytest.mark.parametrize(
    "other", [Given.of(nx.cycle_graph(3)), Given.of(nx.path_graph(3), ttl=2), Given.of(nx.path_graph(3), loss=0.1)]
)
def test_other_networks_have_other_fingerprints_and_directories(tmp_path, other):
    path = Given.of(nx.path_graph(3))
    algorithms = {"gossip": GossipLinUCB(), **ALGORITHMS}

    def known(network):
        return fingerprint(Task("a", ALGORITHMS["dis"], ENV, 5, 0, options=RunOptions(network=network)))

    assert known(path) == known(Given.of(nx.path_graph(3)))
    assert known(path) != known(other)
    run(tmp_path / "out", algorithms, seeds=1, network=path)
    with pytest.raises(ConfigError, match=r"network\.(edges|ttl|loss): .* there, .* now"):
        run(tmp_path / "out", algorithms, seeds=1, network=other)
    with pytest.raises(ConfigError, match=r"network: \{.* there, nothing now"):
        run(tmp_path / "out", seeds=1)


def test_frames_of_earlier_versions_still_load(tmp_path):
    whole = run(tmp_path / "out", seeds=1)
    for path in (tmp_path / "out" / "runs").iterdir():
        table = pq.read_table(path)
        pq.write_table(table.drop_columns(LATER), path)
    loaded = Results.load(tmp_path / "out")
    assert loaded.frame[LATER].isna().all(axis=None)
    assert loaded.frame["regret"].equals(whole["regret"])
    assert loaded.summary()["epsilon"].isna().all()
    assert run(tmp_path / "out", seeds=1)["seconds"].equals(whole["seconds"])  # and nothing was run again


@pytest.mark.parametrize("content", ["{", "[]", "{}"])
def test_unusable_settings_are_named(tmp_path, content):
    (tmp_path / "settings.json").write_text(content)
    with pytest.raises(ConfigError, match=r"settings\.json"):
        run(tmp_path)
    with pytest.raises(ConfigError, match=r"settings\.json"):
        Results.load(tmp_path)


def test_places_that_cannot_hold_results(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigError, match=r"out: .*file cannot be used as a directory"):
        run(tmp_path / "file")
    with pytest.raises(ConfigError, match="holds no results"):
        Results.load(tmp_path)
    run(tmp_path / "out")
    (tmp_path / "out" / "settings.json").unlink()
    with pytest.raises(ConfigError, match=r"holds runs but no settings\.json"):
        run(tmp_path / "out")


def test_nothing_half_written_is_left_when_writing_fails(tmp_path):
    store = Store(tmp_path / "out", {"identity": {}}, [0])
    task = Task("a", ALGORITHMS["dis"], ENV, 5, 0)

    class Unwritable:
        regret_by_client = np.zeros(3)
        seconds = 0.0
        portrait = {}  # noqa: RUF012

        @property
        def frame(self):
            raise OSError("disk full")

    with pytest.raises(OSError, match="disk full"):
        store.keep(task, Unwritable())
    assert files(tmp_path / "out") == {}


def test_file_names_differ_whatever_the_labels(tmp_path):
    labels = ["a/b", "a b", "A b", "ä b", "a-b", "x" * 300, "x" * 299, "..", ""]
    algorithms = dict.fromkeys(labels, fb.algorithms.Random())
    frame = run(tmp_path / "out", algorithms, seeds=1, horizon=2)
    assert len(files(tmp_path / "out")) == len(labels)
    assert Results.load(tmp_path / "out").frame.equals(frame)


def test_settings_are_json_for_anyone(tmp_path):
    run(tmp_path / "out", {"never": fb.algorithms.AsyncLinUCB(gamma_up=float("inf"))}, seeds=1)

    def refuse(constant):
        raise AssertionError(constant)

    held = json.loads((tmp_path / "out" / "settings.json").read_text(), parse_constant=refuse)
    assert held["identity"]["algorithms"]["never"]["gamma_up"] == "inf"
    assert held["identity"]["version"] == fb.__version__
    assert plain({"a": np.float64(1.5), "b": (np.int64(2), None, True)}) == {"a": 1.5, "b": [2, None, True]}


@pytest.mark.parametrize("sweep", [[], ["dim"], ["clients"]])
def test_nothing_is_decided_before_a_run_is_finished(tmp_path, sweep):
    claim = {"kind": "less", "text": "one is below two", "metric": "regret", "of": "one", "than": "two"}
    settings = {
        "title": "T",
        "source": "",
        "description": "",
        "identity": {},
        "seeds": [0, 1],
        "sweep": sweep,
        "cases": [{"label": name, "point": dict.fromkeys(sweep, 3)} for name in ("one", "two")],
        "claims": [claim],
        "published": [],
    }
    write_settings(tmp_path, settings)
    (tmp_path / "runs").mkdir()
    results = Results.load(tmp_path)
    assert results.missing == 4
    assert [(verdict.verdict, verdict.measured) for verdict in results.claims] == [("undecided", "no run is finished")]
