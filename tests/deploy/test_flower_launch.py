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


LAUNCHER = """
import sys, time
from pathlib import Path
from fedbandits.deploy.flower.machine.processes import Programs
where = Path(sys.argv[1])
programs = Programs("test", {"PYTHONPATH": str(where)}, where / "logs")
programs.start_together("family", {"a": ("polite", "I", "am", "a")})
while "I am" not in programs.last_words("a"):
    time.sleep(0.02)
print((where / "logs" / "a.pid").read_text(), flush=True)
time.sleep(60)
"""


@linux_alone
def test_they_end_with_a_launcher_that_was_killed(tmp_path):
    (tmp_path / "polite.py").write_text(POLITE)
    launcher = subprocess.Popen([sys.executable, "-c", LAUNCHER, str(tmp_path)], stdout=subprocess.PIPE)
    pid = int(launcher.stdout.readline())
    os.kill(launcher.pid, signal.SIGKILL)
    launcher.wait()
    wait_for(lambda: not Path(f"/proc/{pid}").exists(), 20.0)
    launcher.stdout.close()


@pytest.mark.parametrize(("decisions", "why"), [(1, "too little traffic"), (20, "were calling when the traffic ended")])
def test_a_demonstration_without_a_synchronisation_says_why(tmp_path, decisions, why):
    settings = Settings(algorithm=fb.algorithms.DisLinUCB(threshold=0.5), dim=2, agents=2)
    paths = [tmp_path / f"agent-{identity}.db" for identity in range(2)]
    for identity, path in enumerate(paths):
        with open_agent(path, settings, identity) as agent:
            for _ in range(decisions):
                agent.reward(agent.decide(np.eye(2) / 4).id, 1.0)
    assert why in _why_nothing_was_said(paths)
