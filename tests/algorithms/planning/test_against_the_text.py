"""Populations take the decisions, and synchronise at the moments, of the text's algorithms agent by agent."""

from __future__ import annotations

import numpy as np
import pytest
from planning_reference import Federation

import fedbandits as fb
from fedbandits.contract.facts import AgentFeatures
from fedbandits.testing.recording import recorded

ENVIRONMENTS = {
    "linear": fb.environments.LinearMDP(clients=3, states=6, dim=4, arms=3, length=4),
    "table": fb.environments.RiverSwim(clients=3, states=4, length=5),
    "deviating": fb.environments.RandomMDP(clients=3, states=4, arms=2, length=3, deviation=0.4),
}
RULES = {
    "never": (fb.algorithms.LSVIUCB, {}, 0.0),
    "dense": (fb.algorithms.FedLSVIDense, {"threshold": 1.5}, 1.5),
    "rare": (fb.algorithms.FedLSVIRare, {"threshold": 1.4}, 1.4),
}


def follow(algorithm, environment, rule, threshold, episodes, seen=lambda arms: arms):
    """Run the library, and hold every step against the text; returns how often both synchronised."""
    length, n = environment.length, environment.clients
    text = None
    for event in recorded(algorithm, environment, episodes * length, seed=3):
        arms = seen(event.arms)
        if text is None:
            text = Federation(n, arms.shape[2], length, algorithm.ridge, algorithm.width, rule, threshold)
        for i in range(n):
            index = text.index(i, arms[i])
            assert index[event.picks[i]] >= index.max() - 1e-8, (event.step, i)
        assert text.step(arms, event.picks, event.rewards) == bool(event.crossed), event.step
    return text.syncs


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("where", ENVIRONMENTS)
def test_decisions_and_synchronisations_are_those_of_the_text(where, rule):
    kind, parameters, threshold = RULES[rule]
    syncs = follow(kind(width=0.7, **parameters), ENVIRONMENTS[where], rule, threshold, episodes=20)
    assert (syncs > 2) == (rule != "never")


def test_agents_with_features_value_what_others_have_done_as_theirs():
    """Algorithm 20 is the text's DENSE on [phi; kappa(m)], scaled, of whoever made a transition."""
    environment = fb.environments.AgentMDP(clients=3, states=5, dim=3, arms=3, length=3, kinds=2)
    told = environment.world(9, np.random.SeedSequence(0)).problem.get(AgentFeatures)
    kappa = np.array(told.features)
    world = environment.world(60, np.random.SeedSequence(3).spawn(6)[0])
    longest = np.linalg.norm(world.features, axis=2).max()
    scale = np.hypot(longest, np.linalg.norm(kappa, axis=1).max())

    def seen(arms):
        beside = np.broadcast_to(kappa[:, None], (*arms.shape[:2], 2))
        return np.concatenate([arms, beside], axis=2) / scale

    algorithm = fb.algorithms.FedLSVIHeterogeneous(width=0.7, threshold=1.5)
    assert follow(algorithm, environment, "dense", 1.5, 20, seen) > 2


@pytest.mark.parametrize("where", ENVIRONMENTS)
def test_synchronising_after_every_episode_is_one_and_the_same(where):
    """Check 8: DENSE with threshold 0, RARE with 1, and central planning; and DENSE with infinity is nobody's talk."""
    env, steps = ENVIRONMENTS[where], 20 * ENVIRONMENTS[where].length
    central, dense, rare, infinite, alone = (
        fb.simulate(algorithm, env, steps, seed=2)
        for algorithm in (
            fb.algorithms.CentralLSVI(width=0.5),
            fb.algorithms.FedLSVIDense(width=0.5, threshold=0),
            fb.algorithms.FedLSVIRare(width=0.5, threshold=1),
            fb.algorithms.FedLSVIDense(width=0.5, threshold=float("inf")),
            fb.algorithms.LSVIUCB(width=0.5),
        )
    )
    np.testing.assert_array_equal(central.regret, dense.regret)
    np.testing.assert_allclose(central.regret, rare.regret, rtol=1e-12)
    np.testing.assert_array_equal(infinite.regret, alone.regret)
    assert central.syncs[-1] == dense.syncs[-1] == rare.syncs[-1] == 20
    assert not np.array_equal(central.regret, alone.regret)
