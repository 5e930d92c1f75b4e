"""Classes of a notebook, a script or a function run in several processes, and what cannot is told why."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest

import fedbandits as fb
from fedbandits.algorithms.random import RandomAgents

OWN = """
import dataclasses
import numpy as np
import fedbandits as fb
from fedbandits.algorithms.random import RandomAgents

STEP = 1

def arm_of(start, who):
    return np.full(len(who), start * STEP)

class Stubborn:
    about = fb.algorithms.Random.about

    def __init__(self, arm=1):
        self.arm = arm

    def agents(self, problem, n, rng):
        return StubbornAgents(self.arm, problem, n, rng)

    def server(self, problem, n, *rest):
        return None

class StubbornAgents(RandomAgents):
    def __init__(self, arm, *rest):
        super().__init__(*rest)
        self.arm = arm

    def choose(self, who, arms):
        return arm_of(self.arm, who)

@dataclasses.dataclass(frozen=True)
class Lender:
    clients: int = 2

    def world(self, horizon, seed):
        return fb.environments.Linear(clients=self.clients, dim=2, arms=3).world(horizon, seed)
"""
RUN = """
print("begun")
one = fb.compare({"own": Stubborn(2)}, Lender(), horizon=20, seeds=2)
two = fb.compare({"own": Stubborn(2)}, Lender(), horizon=20, seeds=2, jobs=2)
print("same" if one.drop(columns="seconds").equals(two.drop(columns="seconds")) else "different")
"""
GUARDED = 'if __name__ == "__main__":' + RUN.replace("\n", "\n    ")


def python(*words: str, text: str | None = None, folder: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *words], input=text, cwd=folder, capture_output=True, text=True, timeout=600, check=False
    )


@pytest.mark.parametrize(
    "ending",
    [
        pytest.param(RUN, id="unguarded", marks=pytest.mark.slow),
        pytest.param(GUARDED, id="guarded", marks=pytest.mark.slow),
    ],
)
def test_a_script_runs_its_own_classes_in_several_processes_and_itself_once(tmp_path, ending):
    (tmp_path / "script.py").write_text(OWN + ending)
    done = python("script.py", folder=tmp_path)
    assert (done.stdout.split(), done.stderr) == (["begun", "same"], "")


@pytest.mark.parametrize(
    "words",
    [
        pytest.param(("-",), id="piped", marks=pytest.mark.slow),
        pytest.param(("-c", "import sys; exec(sys.stdin.read())"), id="executed", marks=pytest.mark.slow),
    ],
)
def test_so_does_what_is_in_no_file(tmp_path, words):
    done = python(*words, text=OWN + RUN, folder=tmp_path)
    assert (done.stdout.split(), done.stderr) == (["begun", "same"], "")


class Lender:
    """Neither a dataclass nor in the catalogue."""

    def __init__(self, **held: object) -> None:
        vars(self).update(held)

    def world(self, horizon: int, seed: np.random.SeedSequence) -> object:
        return fb.environments.Linear(clients=2, dim=2, arms=3).world(horizon, seed)


class Stubborn:
    about = fb.algorithms.Random.about

    def agents(self, *given: object) -> RandomAgents:
        return RandomAgents(*given)

    def server(self, *given: object) -> None:
        return None


def test_a_plain_environment_is_simulated_and_compared():
    trace = fb.simulate(fb.algorithms.Random(), Lender(), 20)
    frame = fb.compare([fb.algorithms.Random()], Lender(), 20, seeds=1)
    np.testing.assert_array_equal(frame["regret"], trace.regret)
    inner = fb.simulate(fb.algorithms.Random(), fb.environments.Linear(clients=2, dim=2, arms=3), 20)
    np.testing.assert_array_equal(inner.regret, trace.regret)


def test_it_is_kept_if_its_attributes_tell_it_apart(tmp_path):
    first = fb.compare(["random"], Lender(size=3), 10, seeds=1, out=tmp_path / "out")
    again = fb.compare(["random"], Lender(size=3), 10, seeds=1, out=tmp_path / "out")
    assert again["seconds"].equals(first["seconds"])
    with pytest.raises(fb.ConfigError, match=r"environment\.size: 3 there, 4 now"):
        fb.compare(["random"], Lender(size=4), 10, seeds=1, out=tmp_path / "out")


def test_it_is_not_kept_otherwise(tmp_path):
    hiding = Lender(law=object())
    assert len(fb.compare(["random"], hiding, 10, seeds=1)) == 10
    with pytest.raises(fb.ConfigError, match=r"out: Lender\.law is an object.* make Lender a frozen dataclass"):
        fb.compare(["random"], hiding, 10, seeds=1, out=tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_one_that_changes_when_used_is_found_again(tmp_path):
    class Counting(Lender):
        made = 0

        def world(self, horizon: int, seed: np.random.SeedSequence) -> object:
            self.made += 1
            return super().world(horizon, seed)

    for _ in range(2):
        fb.compare(["random"], Counting(), 10, seeds=2, out=tmp_path / "out")


def test_classes_made_in_functions_travel():
    class Local(Stubborn):
        def agents(self, *given: object) -> RandomAgents:
            return LocalAgents(*given)

    class LocalAgents(RandomAgents):
        def choose(self, who: np.ndarray, arms: np.ndarray) -> np.ndarray:
            return np.full(len(who), 2)

    one, two = (fb.compare({"local": Local}, Lender(), 20, seeds=2, jobs=jobs) for jobs in (1, 2))
    assert one.drop(columns="seconds").equals(two.drop(columns="seconds"))


def test_what_cannot_travel_is_named_with_the_cause_and_the_fix():
    lock = threading.Lock()

    class Careful(Stubborn):
        def agents(self, *given: object) -> RandomAgents:
            with lock:
                return RandomAgents(*given)

    for algorithm, environment, match in (
        (
            Stubborn(),
            Lender(door=lock),
            r"^mine: Lender\.door cannot be sent to another process \(cannot pickle '_thread\.lock' object\); make it",
        ),
        (Careful(), Lender(), r"^mine: Careful cannot be sent .*'_thread\.lock'.*its methods use something .* jobs=1$"),
    ):
        assert len(fb.compare({"mine": algorithm}, environment, 10, seeds=1)) == 10
        with pytest.raises(fb.ConfigError, match=match):
            fb.compare({"mine": algorithm}, environment, 10, seeds=2, jobs=2)


def test_a_module_that_workers_cannot_import_is_named(tmp_path, monkeypatch):
    (tmp_path / "hidden_away.py").write_text(OWN)
    spec = importlib.util.spec_from_file_location("hidden_away", tmp_path / "hidden_away.py")
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "hidden_away", module)
    spec.loader.exec_module(module)
    with pytest.raises(
        fb.ConfigError,
        match=r"^own, seed 0: a worker process cannot import .*No module named 'hidden_away'.* on PYTHONPATH",
    ):
        fb.compare({"own": module.Stubborn()}, Lender(), 10, seeds=1, jobs=2)


KEEP = """
frame = fb.compare({"own": Stubborn(1)}, Lender(), horizon=10, seeds=1, out="out")
print(frame["seconds"].iloc[0])
"""


@pytest.mark.slow
@pytest.mark.parametrize("words", [("script.py",), ("-",)], ids=["script", "piped"])
def test_kept_results_are_used_again_until_the_code_changes(tmp_path, words):
    def kept(source: str) -> subprocess.CompletedProcess[str]:
        (tmp_path / "script.py").write_text(source)
        return python(*words, text=source if words == ("-",) else None, folder=tmp_path)

    first = kept(OWN + KEEP)
    assert first.returncode == 0, first.stderr
    assert kept(OWN + KEEP).stdout == first.stdout
    # in a function that a method of another class uses, or its global
    edited = OWN.replace("start * STEP", "start * STEP + 0") if words == ("-",) else OWN.replace("STEP = 1", "STEP = 0")
    again = kept(edited + KEEP)
    assert "holds results of code that has changed since; running them again" in again.stderr
