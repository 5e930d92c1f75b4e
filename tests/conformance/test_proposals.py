"""Agents keep every promise where they propose arms: two worlds agree, a run goes on, nobody moves by being asked."""

from __future__ import annotations

import pytest

from fedbandits.environments import Cosine8
from fedbandits.testing import check_algorithm

PROPOSING = [
    "fed-go-ucb:width=3,rounds=5,explore=10,threshold=0.5",
    "one-go-ucb:width=3,rounds=5,explore=10,inner=centre",
    "n-go-ucb:width=3,rounds=5,explore=3,gradients=moving",
    "approx-dis-kernel-ucb:lengthscale=0.5,ridge=0.1,threshold=1",
    "dis-kernel-features:lengthscale=1,threshold=1,count=16",
    "neural-linear:width=4",
]


@pytest.mark.parametrize("algorithm", PROPOSING, ids=lambda text: text.split(":")[0])
def test_promises_of_agents_who_propose(algorithm):
    check_algorithm(algorithm, Cosine8(clients=4, arms=7, shown="proposed"), horizon=15)
