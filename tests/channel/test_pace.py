"""What stages do between conversations is known to compiled loops, or left to Python."""

from __future__ import annotations

import numpy as np
import pytest

import fedbandits as fb
from fedbandits.channel.clipping import clipped
from fedbandits.contract.facts import Norms, Range
from fedbandits.contract.problem import Problem
from fedbandits.contract.server import patience_of

BOUNDED = "linear-bounded:clients=3,dim=4,arms=5"


def agents(algorithm):
    return fb.Simulation(algorithm, BOUNDED, 40).agents


@pytest.mark.parametrize("dim", [1, 2, 3, 7, 8, 9, 16, 25, 37])
def test_arms_are_cut_down_by_norms_as_numpy_adds_them_up(dim):
    """Arms of norm 1 but for the last bit: whether one is cut down decides about all bits that follow."""
    rng = np.random.default_rng(dim)
    arms = rng.standard_normal((400, 3, dim))
    arms /= np.linalg.norm(arms, axis=2, keepdims=True)
    picks, rewards = rng.integers(0, 3, 400), rng.standard_normal(400)
    problem = Problem(agents=1, dim=dim, arms=3, horizon=1).knowing(Norms(arms=1.0), Range(-0.5, 0.5))
    cut, _, left = clipped(problem, arms, picks, rewards)
    chosen = arms[np.arange(400), picks]
    norms = np.sqrt(np.einsum("wd,wd->w", chosen, chosen))
    scale = np.where(norms > 1.0, 1.0 / norms, 1.0)
    if dim > 2:
        assert (scale < 1.0).any()
        assert (scale == 1.0).any()
    np.testing.assert_array_equal(cut[np.arange(400), picks], chosen * scale[:, None])
    np.testing.assert_array_equal(left, np.clip(rewards, -0.5, 0.5))


@pytest.mark.parametrize(
    "algorithm",
    [
        "dislinucb|gaussian:clip=learned,mechanism=fresh",  # cut down to frames
        "dislinucb|gaussian:unit=person",  # observations are about persons
        "ldp-linucb",  # uploads after every turn: nothing is left to play
        "dis-kernel-features|quantise",  # agents inside have no compiled functions
        "fedlinucb-private:constants=thesis,mechanism=tree,threshold=3,leaky=true",  # a trigger of its own
    ],
)
def test_what_loops_do_not_know_is_left_to_python(algorithm):
    assert agents(algorithm).compiled() is None


def test_stages_that_wait_leave_a_server_its_patience():
    run = fb.Simulation("dislinucb|gaussian", BOUNDED, 40)
    assert patience_of(run.server) > 40


def test_who_changes_a_stage_is_not_spoken_for():
    run = fb.Simulation("dislinucb|gaussian", BOUNDED, 40)
    (end,) = run.agents.ends._all
    assert run.agents.compiled() is not None
    end.observing = lambda who, arms, picks, rewards: (arms, picks, rewards)
    assert run.agents.compiled() is None
