"""What theory says: optimism at its bonus, how often agents synchronise; and plans against a direct solution."""

from __future__ import annotations

import math

import numpy as np
import pytest

import fedbandits as fb
from fedbandits.contract.state import from_bytes, to_bytes

SMALL = fb.environments.LinearMDP(clients=4, states=6, dim=3, arms=3, length=3)


def finished(algorithm, environment, steps, seed):
    run = fb.Simulation(algorithm, environment, steps, seed=seed)
    run.run()
    return run


def optimistic_values(run, stage):
    """(n, S, A) the values that agents act by in every state, cut off as in value iteration."""
    agents, features = run.agents, run.world.features
    n, states = len(agents), len(features)
    who = np.arange(n)
    found = np.stack(
        [agents.indices(who, np.tile(features[x], (n, 1, 1)), np.full(n, stage)) for x in range(states)],
        axis=1,
    )
    return np.minimum(found, agents.length - stage)


@pytest.mark.parametrize("kind", [fb.algorithms.FedLSVIDense, fb.algorithms.FedLSVIRare])
def test_at_the_bonus_of_theory_values_are_never_below_the_best(kind):
    for seed in range(3):
        run = finished(kind(), SMALL, 90, seed)
        for h in range(3):
            assert (optimistic_values(run, h) >= run.world.mdps.best[1][0, h] - 1e-9).all()


def test_without_a_bonus_they_are():
    """The check above can fail."""
    run = finished(fb.algorithms.FedLSVIRare(width=0.0), SMALL, 90, 0)
    assert any((optimistic_values(run, h) < run.world.mdps.best[1][0, h] - 1e-6).any() for h in range(3))


@pytest.mark.parametrize("S", [1.5, 2.0, 4.0])
def test_rare_agents_synchronise_no_more_often_than_the_corrected_lemma_says(S):
    episodes, (n, d, H) = 200, (4, 3, 3)
    trace = fb.simulate(fb.algorithms.FedLSVIRare(threshold=S, width=0.5), SMALL, episodes * H, seed=1)
    assert 0 < trace.syncs[-1] <= H * (d * math.log(1 + n * episodes / d, S) + 1)


def test_dense_agents_synchronise_no_more_often_than_the_lemma_says():
    episodes, (n, d, H), S = 200, (4, 3, 3), 5.0
    trace = fb.simulate(fb.algorithms.FedLSVIDense(threshold=S, width=0.5), SMALL, episodes * H, seed=1)
    assert 0 < trace.syncs[-1] <= 2 * H * math.sqrt(d * episodes / S * math.log(n * episodes)) + 4 * H


def test_plans_solve_the_regularised_least_squares_of_every_stage():
    """By numpy's least squares on stacked rows [phi; sqrt(lambda) I], targets by the agent's own next stage."""
    run = finished(fb.algorithms.LSVIUCB(width=0.4, ridge=0.7), SMALL, 60, 0)
    agents, i = run.agents, 1
    weights, _ = agents.regressions(np.arange(len(agents)))
    arms, ends = agents.own.views.of(i)
    starts = np.concatenate([[0], ends])
    for h in range(3):
        at = i * 3 + h
        rows, targets = [], []
        for k in range(agents.own.rows[at]):
            number, reward, to = agents.own.number[at, k].sum(), agents.own.reward[at, k].sum(), agents.own.to[at, k]
            value = 0.0
            if to >= 0:
                view = arms[starts[to] : ends[to]]
                value = min(agents.indices(np.array([i]), view[None], np.array([h + 1])).max(), 3 - (h + 1))
            rows.append(math.sqrt(number) * arms[agents.own.arm[at, k]])
            targets.append((reward + number * value) / math.sqrt(number))
        stacked = np.vstack([*rows, math.sqrt(0.7) * np.eye(3)])
        direct = np.linalg.lstsq(stacked, np.concatenate([targets, np.zeros(3)]), rcond=None)[0]
        np.testing.assert_allclose(weights[at], direct, atol=1e-9)


@pytest.mark.parametrize("name", ["lsvi-ucb", "fedlsvi-dense:threshold=1", "fedlsvi-rare"])
def test_a_world_that_was_stopped_in_mid_episode_goes_on_to_the_bit(name):
    whole, first, second = (fb.Simulation(f"{name}", SMALL, 60, seed=2) for _ in range(3))
    whole.run()
    first.run(31)  # one turn into an episode
    second.load(from_bytes(to_bytes(first.state())))
    second.run()
    for key, array in whole.state().items():
        np.testing.assert_array_equal(second.state()[key], array, err_msg=key)


def test_histories_are_bounded_where_features_are_finite():
    run = finished(fb.algorithms.FedLSVIRare(width=0.5), fb.environments.RiverSwim(clients=2, length=5), 2000, 0)
    assert run.agents.own.views.count.max() <= 6
    assert run.agents.own.rows.max() <= 6 + 6 * 3  # one way to drift, three ways to swim
    assert run.agents.own.number.sum() == 2 * 2000


def test_episodes_have_to_be_known():
    with pytest.raises(fb.ConfigError, match="needs to know the fact 'episodes'"):
        fb.simulate("lsvi-ucb", "linear", 10)
