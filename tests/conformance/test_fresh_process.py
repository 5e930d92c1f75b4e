"""Stop anywhere, save, load in a fresh process, go on: same run, to the last bit."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from conformance.subjects import HORIZON, NAMES, subject
from fedbandits.testing.breach import same

TESTS = Path(__file__).parent.parent


@pytest.fixture(scope="module")
def continued(tmp_path_factory):
    """The final states of all runs, each stopped at a step of its own and finished by another process."""
    directory = tmp_path_factory.mktemp("resume")
    straight, resumed = {}, {}
    for at, name in enumerate(NAMES):
        run = subject(name).simulation()
        run.run(steps=(5 + 7 * at) % HORIZON)
        np.savez(directory / f"{name}.before.npz", **run.state())
        straight[name] = subject(name).finished.state()
    subprocess.run(
        [sys.executable, "-m", "conformance.resume", str(directory), *NAMES], check=True, cwd=TESTS, timeout=300
    )
    for name in NAMES:
        with np.load(directory / f"{name}.after.npz", allow_pickle=False) as saved:
            resumed[name] = dict(saved)
    return straight, resumed


@pytest.mark.slow
def test_a_fresh_process_continues_all_runs(continued):
    straight, resumed = continued
    assert [name for name in NAMES if not same(straight[name], resumed[name])] == []
