"""Starting a federation on one machine, without Flower: programs that are loaded once, and what is told meanwhile."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("flwr", reason="needs the extra fedbandits[deploy]")

from flower_worlds import open_agent, wait_for

import fedbandits as fb
from fedbandits.deploy.flower.machine.demonstration import _why_nothing_was_said
from fedbandits.deploy.flower.machine.processes import Programs
from fedbandits.deploy.settings import Settings

linux_alone = pytest.mark.skipif(sys.platform != "linux", reason="elsewhere programs are loaded one by one")
POLITE = """
import signal, sys, time
print("loaded", flush=True)
def main():
    def leave(*_):
        print("told", flush=True)
        time.sleep(0.3)
        print("gone in good order", flush=True)
        sys.exit()
    signal.signal(signal.SIGTERM, leave)
    print(*sys.argv[1:], flush=True)
    time.sleep(60)
"""


@pytest.fixture
def programs(tmp_path):
    (tmp_path / "polite.py").write_text(POLITE)
    programs = Programs("test", {"PYTHONPATH": str(tmp_path)}, tmp_path / "logs")
    programs.start_together("family", {name: ("polite", "I", "am", name) for name in ("a", "b", "c")})
    yield programs
    programs.stop()


def words(programs: Programs, name: str) -> list[str]:
    return programs.last_words(name).splitlines()


def started(programs: Programs) -> bool:
    return all(f"I am {name}" in words(programs, name) for name in ("a", "b", "c"))


@linux_alone
def test_programs_that_are_loaded_once_are_stopped_one_by_one(programs):
    assert programs.alive("b")
    programs.stop("b")  # waits until it is there to be told
    assert not programs.alive("b")
    assert words(programs, "b") in ([], ["I am b"], ["I am b", "told", "gone in good order"])
    wait_for(lambda: "I am c" in words(programs, "c"), 20.0)
    assert programs.alive("a")
    assert programs.alive("c")
    assert words(programs, "family") == ["loaded"]


@linux_alone
def test_programs_that_are_loaded_once_are_told_once(programs):
    wait_for(lambda: started(programs), 20.0)
    programs.stop()
    for name in ("a", "b", "c"):
        assert words(programs, name) == [f"I am {name}", "told", "gone in good order"]
        assert not programs.alive(name)


@linux_alone
def test_a_program_can_be_started_again_on_its_own(programs):
    wait_for(lambda: started(programs), 20.0)
    programs.stop("a", kill=True)
    assert "told" not in words(programs, "a")
    programs.start("a", [sys.executable, "-c", "print('alone'); import time; time.sleep(60)"])
    assert programs.alive("a")
    assert programs.alive("b")


COPIED = """
import sys, time
from pathlib import Path
from fedbandits.deploy.flower.machine.processes import Programs
where = Path(sys.argv[1])
sys.path.insert(0, str(where))
programs = Programs("test", {}, where / "logs")
programs.load("family", ["polite", "brief"], here=sys.argv[2] == "here")
programs.start_together("family", {"a": ("polite", "I", "am", "a"), "b": ("polite", "I", "am", "b"), "c": ("brief",)})
while not all("I am" in programs.last_words(name) for name in "abc"):
    time.sleep(0.02)
while programs.alive("c"):
    time.sleep(0.02)
if sys.argv[3] == "wait":
    print((where / "logs" / "a.pid").read_text(), flush=True)
    time.sleep(60)
programs.stop("a")
assert not programs.alive("a") and programs.alive("b") and programs.alive("family")
programs.stop()
assert not programs.alive("b") and not programs.alive("family")
print("done", flush=True)
"""
BRIEF = """
import os, sys
def main():
    print("I am brief", os.environ["FEDBANDITS_FEDERATION"] != "", flush=True)
    sys.exit("for good")
"""


def launched(where: Path, *how: str) -> subprocess.Popen[bytes]:
    """A process that has copies of itself, or of another, become programs."""
    (where / "polite.py").write_text(POLITE)
    (where / "brief.py").write_text(BRIEF)
    environment = {**os.environ, "PYTHONPATH": f"{where}:{os.environ.get('PYTHONPATH', '')}"}
    return subprocess.Popen([sys.executable, "-c", COPIED, where, *how], stdout=subprocess.PIPE, env=environment)


@linux_alone
def test_a_process_that_is_copied_goes_on_as_if_nothing_had_been(tmp_path):
    with launched(tmp_path, "here", "stop") as launcher:
        assert launcher.stdout.read() == b"loaded\ndone\n", "what copies print goes to their own logs"
        assert launcher.wait() == 0
    said = {name: (tmp_path / "logs" / f"{name}.log").read_text().splitlines() for name in ("a", "b", "c", "family")}
    for name in ("a", "b"):
        assert said[name] == [f"I am {name}", "told", "gone in good order"]
    assert said["c"] == ["I am brief True", "for good"]
    assert said["family"] == []
    assert {(tmp_path / "logs" / f"{name}.log").stat().st_mode & 0o777 for name in "abc"} == {0o600}


@linux_alone
@pytest.mark.parametrize("where", ["here", "elsewhere"])
def test_they_end_with_a_launcher_that_was_killed(tmp_path, where):
    with launched(tmp_path, where, "wait") as launcher:
        pid = next(int(line) for line in launcher.stdout if line.strip().isdigit())
        os.kill(launcher.pid, signal.SIGKILL)
    wait_for(lambda: not Path(f"/proc/{pid}").exists(), 20.0)


@pytest.mark.parametrize(("decisions", "why"), [(1, "too little traffic"), (20, "were calling when the traffic ended")])
def test_a_demonstration_without_a_synchronisation_says_why(tmp_path, decisions, why):
    settings = Settings(algorithm=fb.algorithms.DisLinUCB(threshold=0.5), dim=2, agents=2)
    paths = [tmp_path / f"agent-{identity}.db" for identity in range(2)]
    for identity, path in enumerate(paths):
        with open_agent(path, settings, identity) as agent:
            for _ in range(decisions):
                agent.reward(agent.decide(np.eye(2) / 4).id, 1.0)
    assert why in _why_nothing_was_said(paths)
