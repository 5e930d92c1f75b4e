"""Experiments that are stopped from outside: nothing finished is lost, and no process is left behind."""

import os
import signal
import subprocess
import sys
import time

import pytest

from fedbandits.experiments import run_experiment
from fedbandits.findings.results import Results

pytestmark = pytest.mark.skipif(not os.path.isdir("/proc/self"), reason="looks processes up in /proc")

LONG = """
title = "Long"
source = "ours"
[environment]
name = "linear"
clients = 1
dim = 2
arms = 2
[run]
horizon = 10000
seeds = 200
[algorithms.random]
name = "random"
"""

SCRIPT = """
import sys
from fedbandits.experiments import run_experiment
if __name__ == "__main__":
    try:
        run_experiment(sys.argv[1], out=sys.argv[2], jobs=2)
    except KeyboardInterrupt:
        sys.exit("stopped")
"""


@pytest.fixture
def experiment(tmp_path):
    path = tmp_path / "long.toml"
    path.write_text(LONG)
    return path


@pytest.fixture
def running(experiment, tmp_path):
    """A process in a group of its own that has finished some of its runs."""
    script, out = tmp_path / "script.py", tmp_path / "out"
    script.write_text(SCRIPT)
    process = subprocess.Popen(
        [sys.executable, script, experiment, out], stderr=subprocess.PIPE, text=True, start_new_session=True
    )
    try:
        until = time.monotonic() + 120
        while len(list(out.glob("runs/*.parquet"))) < 3 and process.poll() is None and time.monotonic() < until:
            time.sleep(0.02)
        yield process
    finally:
        process.kill()
        process.wait()
        process.stderr.close()


def alive_in_group(group):
    """Processes of the group that have not ended; one that merely waits to be reaped by init has."""
    alive = []
    for entry in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{entry}/stat") as stat:
                state, _, process_group = stat.read().rpartition(")")[2].split()[:3]
        except OSError:
            continue
        if int(process_group) == group and state != "Z":
            alive.append(int(entry))
    return alive


def gone_within(group, seconds):
    until = time.monotonic() + seconds
    while alive_in_group(group):
        if time.monotonic() > until:
            return False
        time.sleep(0.05)
    return True


def test_interrupted_work_resumes_where_it_stopped(running, experiment, tmp_path):
    """Ctrl-C reaches the whole process group, as from a terminal."""
    out = tmp_path / "out"
    os.killpg(running.pid, signal.SIGINT)
    _, errors = running.communicate(timeout=30)
    assert errors.strip() == "stopped"
    assert gone_within(running.pid, 10)

    kept = {path.name: path.stat().st_mtime_ns for path in out.glob("runs/*")}
    assert 3 <= len(kept) < 200
    partial = Results.load(out)
    assert len(partial.final()) == len(kept)
    assert partial.missing == 200 - len(kept)

    seeds = sorted(int(name.removeprefix("random--seed-").removesuffix(".parquet")) for name in kept)
    results = run_experiment(experiment, seeds=[*seeds, 199], out=out)
    after = {path.name: path.stat().st_mtime_ns for path in out.glob("runs/*")}
    assert set(after) - set(kept) == {"random--seed-199.parquet"}
    assert {name: after[name] for name in kept} == kept
    assert len(results.final()) == len(kept) + 1


@pytest.mark.slow
def test_workers_do_not_outlive_a_parent_that_was_killed(running):
    assert len(alive_in_group(running.pid)) >= 3  # with two workers
    running.kill()
    running.wait()
    assert gone_within(running.pid, 30)
