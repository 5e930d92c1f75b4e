"""What is in whose file: raw points of others with a pool or a dictionary, which cannot be forgotten, and sums else."""

from __future__ import annotations

import numpy as np
import pytest
from flower_worlds import Deployed

import fedbandits as fb
from fedbandits.deploy import CannotForgetError

ENV = fb.environments.Cosine(clients=3, dim=4, arms=5)
KERNELS = fb.algorithms


@pytest.mark.parametrize(
    ("algorithm", "held"),
    [
        (KERNELS.DisKernelUCB(threshold=1.0), "points and rewards"),
        (KERNELS.ApproxDisKernelUCB(threshold=1.0), "points"),
        (KERNELS.DisKernelFeatures(threshold=0.5, count=10), "nothing"),
    ],
    ids=lambda one: getattr(getattr(one, "about", None), "name", None),
)
def test_the_catalogue_says_whose_data_are_in_my_file(tmp_path, algorithm, held):
    federation = Deployed(tmp_path, algorithm, ENV, 60)
    points, rewards = [], []
    for step in range(10):
        turn = federation.world.turn(step)
        picks = federation.live(step)
        points.append(turn.arms[1, picks[1]])
        rewards.append(federation.world.pay(step, picks).rewards[1])
        federation.coordinator.step()
    mine = federation.agents[0].state()
    known = np.concatenate([array.ravel() for array in mine.values() if array.dtype == np.float64])
    assert np.isin(np.array(points), known).any() == ("points" in held)
    assert np.isin(np.array(rewards), known).any() == ("rewards" in held)
    raw = {item.name for said in algorithm.about.says for item in said.fields if item.raw}
    assert bool(raw) == (held != "nothing") == ("raw" in algorithm.about.wire)
    if raw:
        with pytest.raises(CannotForgetError, match="keeps its observations"):
            federation.agents[0].forget(4e9)
    else:
        assert federation.agents[0].forget(4e9) == 10
