"""Results of code that has changed since are not taken for those of today."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import fedbandits as fb
from fedbandits.network.topologies import EdgeList
from fedbandits.provenance import _read, digest_of_code

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
print(*{str(warning.message) for warning in caught if "changed since" in str(warning.message)}, sep="\\n")
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


@pytest.mark.parametrize("edited", ["mine.py", "helper.py"])
def test_an_algorithm_that_was_edited_is_run_again_and_nothing_else(project, edited):
    said, first = compared(project)
    assert (said, len(first)) == ("", 4)
    assert compared(project) == ("", first)
    (project / "stranger.py").write_text("UNRELATED = 2\n")
    assert compared(project) == ("", first)
    (project / edited).write_text((project / edited).read_text() + "# edited\n")
    said, again = compared(project)
    assert said == "out holds results of code that has changed since; running them again"
    assert {name for name in first if again[name] != first[name]} == {"mine--seed-0.parquet", "mine--seed-1.parquet"}
    assert compared(project) == ("", again)


def test_what_an_algorithm_rests_on_is_found():
    _, imported = _read("fedbandits.algorithms.linear.dislinucb")
    assert {"fedbandits.algorithms.linear.servers", "fedbandits.streams"} <= imported
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


def test_code_that_cannot_be_read_is_never_the_same_in_another_process():
    program = (
        "import fedbandits as fb\nfrom fedbandits.provenance import digest_of_code\n"
        "class Typed(fb.algorithms.DisLinUCB): pass\n"
        "assert digest_of_code(Typed()) == digest_of_code(Typed())\nprint(digest_of_code(Typed()))"
    )
    said = {
        subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout
        for _ in range(2)
    }
    assert len(said) == 2
