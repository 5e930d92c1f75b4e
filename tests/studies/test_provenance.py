"""Results of code that has changed since are not taken for those of today."""

from __future__ import annotations

import importlib
import subprocess
import sys
import threading
from dataclasses import dataclass
from pathlib import Path

import pytest

import fedbandits as fb
from fedbandits.graphs.topologies import EdgeList
from fedbandits.studies import provenance
from fedbandits.studies.provenance import _read, digest_of_code

MINE = """
from dataclasses import dataclass
import fedbandits as fb
from helper import BEST

@dataclass(frozen=True, kw_only=True)
class Mine(fb.algorithms.DisLinUCB):
    threshold: float = BEST
"""
COMPARE = """
import sys, warnings
import fedbandits as fb
from mine import Mine
environment = fb.environments.Linear(clients=3, dim=2, arms=3)
algorithms = {"mine": Mine(threshold=2.0), "alone": fb.algorithms.IndependentLinUCB()}
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    fb.compare(algorithms, environment, horizon=5, seeds=2, out="out")
print(*(str(warning.message) for warning in caught if "changed since" in str(warning.message)), sep="\\n")
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """Somebody's own algorithm, with a helper beside it, and a script that compares it."""
    (tmp_path / "mine.py").write_text(MINE)
    (tmp_path / "helper.py").write_text("BEST = 1.0\n")
    (tmp_path / "stranger.py").write_text("UNRELATED = 1\n")
    (tmp_path / "script.py").write_text(COMPARE)
    return tmp_path


def compared(project: Path) -> tuple[str, dict[str, int]]:
    """What a comparison warns of, and when each result was written."""
    done = subprocess.run([sys.executable, "script.py"], cwd=project, capture_output=True, text=True, check=True)
    written = {path.name: path.stat().st_mtime_ns for path in (project / "out" / "runs").iterdir()}
    return done.stdout.strip(), written


@pytest.mark.slow
def test_an_algorithm_that_was_edited_is_run_again_and_nothing_else(project):
    said, first = compared(project)
    assert (said, len(first)) == ("", 4)
    (project / "stranger.py").write_text("UNRELATED = 2\n")
    assert compared(project) == ("", first)
    (project / "helper.py").write_text("BEST = 1.5\n")
    said, again = compared(project)
    assert said == "out holds results of code that has changed since; running them again"
    assert {name for name in first if again[name] != first[name]} == {"mine--seed-0.parquet", "mine--seed-1.parquet"}


@pytest.mark.parametrize("edited", ["mine_too.py", "helper_too.py"])
def test_the_digest_follows_imports_to_files_beside_the_class(tmp_path, monkeypatch, edited):
    def digest() -> str:
        for name in ("mine_too", "helper_too"):
            sys.modules.pop(name, None)
        for cached in (provenance._read, provenance._file, provenance._is_followed, provenance._is_library):
            cached.cache_clear()
        return digest_of_code(importlib.import_module("mine_too").Mine())

    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "mine_too.py").write_text(MINE.replace("helper", "helper_too"))
    (tmp_path / "helper_too.py").write_text("BEST = 1.0\n")
    before = digest()
    assert digest() == before
    path = tmp_path / edited
    path.write_text(path.read_text() + "# edited\n")
    importlib.invalidate_caches()
    assert digest() != before


def test_what_an_algorithm_rests_on_is_found():
    _, imported = _read("fedbandits.algorithms.linear.dislinucb")
    assert {"fedbandits.algorithms.linear.servers", "fedbandits.contract.streams"} <= imported
    ours = digest_of_code(fb.algorithms.DisLinUCB())
    assert ours == digest_of_code(fb.algorithms.DisLinUCB(threshold=7.0)), "parameters are not code"
    assert ours != digest_of_code(fb.algorithms.CentralLinUCB())
    assert ours != digest_of_code(fb.algorithms.DisLinUCB(), fb.environments.Logistic())


def test_a_graph_in_a_file_counts_as_source(tmp_path):
    path = tmp_path / "links.txt"
    network = EdgeList(path=str(path))
    missing = digest_of_code(network)
    path.write_text("0 1\n")
    before = digest_of_code(network)
    path.write_text("0 1\n1 2\n")
    assert len({missing, before, digest_of_code(network)}) == 3


def test_code_that_cannot_be_read_is_never_the_same_in_another_process(monkeypatch):
    def typed(**held: object) -> object:
        return type("Typed", (fb.algorithms.DisLinUCB,), {"__module__": "typed_at_a_prompt", **held})()

    known, locked = typed(rate=1), typed(rate=threading.Lock())
    before = digest_of_code(known), digest_of_code(locked)
    assert (digest_of_code(known), digest_of_code(locked)) == before
    assert digest_of_code(typed(rate=1)) == before[0] != digest_of_code(typed(rate=2))
    monkeypatch.setattr(provenance, "_UNKNOWN", "that of another process")
    assert digest_of_code(known) == before[0]
    assert digest_of_code(locked) != before[1]


def test_what_a_thing_is_made_of_counts(tmp_path, monkeypatch):
    @dataclass(frozen=True)
    class Around:
        inner: object

    dis, central = fb.algorithms.DisLinUCB(), fb.algorithms.CentralLinUCB()
    assert digest_of_code(Around(dis)) != digest_of_code(Around(central))
    assert digest_of_code(Around((dis,))) != digest_of_code(Around((central,)))
    assert digest_of_code(type(dis)) == digest_of_code(dis)


def test_who_can_be_chosen_does_not_count():
    """A change of one algorithm would otherwise make the results of all of them old."""
    assert "fedbandits.simulation.arguments" in _read("fedbandits.simulation.loop")[1]
    followed = provenance._is_followed("fedbandits.simulation.arguments", frozenset(), frozenset())
    assert not followed
