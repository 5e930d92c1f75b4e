"""Stop anywhere, save, load in a fresh process, go on: same run, to the last bit."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from conformance.resume import SEED
from conformance.subjects import HORIZON, NAMES, same, simulation

TESTS = Path(__file__).parent.parent


@pytest.fixture(scope="module")
def continued(tmp_path_factory):
    """The final states of all runs, each stopped at a step of its own and finished by another process."""
    directory = tmp_path_factory.mktemp("resume")
    for at, name in enumerate(NAMES):
        run = simulation(name, SEED)
        run.run(steps=(5 + 7 * at) % HORIZON)
        np.savez(directory / f"{name}.before.npz", **run.state())
    subprocess.run(
        [sys.executable, "-m", "conformance.resume", str(directory), *NAMES], check=True, cwd=TESTS, timeout=300
    )
    states = {}
    for name in NAMES:
        with np.load(directory / f"{name}.after.npz", allow_pickle=False) as saved:
            states[name] = dict(saved)
    return states


@pytest.mark.parametrize("name", NAMES)
def test_a_fresh_process_continues_the_run(name, continued):
    run = simulation(name, SEED)
    run.run()
    assert same(run.state(), continued[name])


@pytest.mark.parametrize("name", NAMES)
def test_every_step_can_be_the_last_before_a_snapshot(name):
    straight = simulation(name, SEED)
    hopping = simulation(name, SEED)
    for _ in range(HORIZON):
        straight.run(steps=1)
        hopping.run(steps=1)
        saved = hopping.state()
        hopping = simulation(name, SEED)
        hopping.load(saved)
    assert same(straight.state(), hopping.state())


@pytest.mark.parametrize("name", NAMES)
def test_a_snapshot_is_a_copy(name):
    run = simulation(name, SEED)
    run.run(steps=5)
    saved = run.state()
    kept = {key: array.copy() for key, array in saved.items()}
    run.run()
    assert same(saved, kept)
    other = simulation(name, SEED)
    other.load(saved)
    other.run()
    assert same(saved, kept)
    assert same(other.state(), run.state())


@pytest.mark.parametrize("name", NAMES)
def test_a_snapshot_that_does_not_fit_changes_nothing(name):
    """Missing, unknown, misshapen or mistyped arrays, in any part of the run."""
    run = simulation(name, SEED)
    run.run(steps=9)
    donor = simulation(name, SEED)
    donor.run(steps=23)
    good = donor.state()
    before = run.state()
    for key in good:
        lacking = {other: array for other, array in good.items() if other != key}
        with pytest.raises(ValueError, match=key.split(".")[-1]):
            run.load(lacking)
        assert same(run.state(), before), f"a snapshot without {key} changed the run"
    for key, array in good.items():
        if key.startswith("relay."):
            continue  # letters under way come and go, in number and size
        for bad in (np.zeros((*array.shape, 2), array.dtype), array.astype(np.float32)):
            with pytest.raises(ValueError, match=key.split(".")[-1]):
                run.load(good | {key: bad})
            assert same(run.state(), before), f"a bad {key} changed the run"
    for extra in ("surplus", "agents.surplus", "server.surplus", "relay.surplus", "ledger.surplus"):
        with pytest.raises(ValueError, match="surplus"):
            run.load(good | {extra: np.zeros(1)})
        assert same(run.state(), before), f"an unknown {extra} changed the run"
    run.load(good)
    assert same(run.state(), good)
