"""Same seed, same run; different seeds, different runs."""

from __future__ import annotations

import numpy as np
import pytest

from conformance.subjects import HORIZON, NAMES, TALKING, same, simulation
from fedbandits.simulation.loop import Simulation


def finished(name: str, seed: int, steps: int | None = None) -> Simulation:
    run = simulation(name, seed)
    while int(run.at) < HORIZON:
        run.run(steps)
    return run


@pytest.mark.parametrize("name", NAMES)
def test_same_seed_same_run(name):
    assert same(finished(name, 3).state(), finished(name, 3).state())


@pytest.mark.parametrize("name", NAMES)
def test_a_run_does_not_depend_on_how_it_is_divided(name):
    assert same(finished(name, 3).state(), finished(name, 3, steps=7).state())


@pytest.mark.parametrize("name", NAMES)
def test_different_seeds_different_runs(name):
    first, second = finished(name, 3).trace(), finished(name, 4).trace()
    assert not np.isclose(first.regret, second.regret).any()
    assert not np.allclose(first.reward, second.reward), "clicks may add up to the same number for a while"


@pytest.mark.parametrize("name", TALKING)
def test_the_talkative_parameters_do_talk(name):
    """Guards the suite itself: were nobody to talk, most of it would hold for no reason."""
    trace = finished(name, 3).trace()
    assert trace.syncs[-1] >= 3
    assert trace.messages[-1] > 0
