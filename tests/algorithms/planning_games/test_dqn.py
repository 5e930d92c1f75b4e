"""Deep Q-learning: against torch's own modules, against the text step by step, and on a game that it has to solve."""

from __future__ import annotations

import importlib.util
from dataclasses import replace

import numpy as np
import pytest

import fedbandits as fb
from fedbandits.contract.errors import ConfigError
from fedbandits.contract.streams import Streams

MISSING = importlib.util.find_spec("torch") is None
needs_torch = pytest.mark.skipif(MISSING, reason="dqn-independent needs the extra torch")
SMALL = fb.algorithms.DQNIndependent(filters=3, kernel=2, hidden=8, memory=40, batch=8, every=2, renew=3, explore=60)


@pytest.mark.skipif(not MISSING, reason="torch is there")
def test_without_torch_the_command_that_helps_is_named():
    with pytest.raises(ConfigError, match=r"fedbandits\[torch\]"):
        fb.simulate(SMALL, fb.environments.TeamMDP(clients=2), horizon=5, seed=0)


def test_it_is_in_the_catalogue_with_or_without():
    assert fb.algorithms.ALGORITHMS["dqn-independent"].about.extra == "torch"


def made(environment, n, seed=0):
    problem = environment.world(10, np.random.SeedSequence(0)).problem
    return SMALL.agents(problem, n, Streams(np.random.SeedSequence(seed), n)), problem


@needs_torch
@pytest.mark.filterwarnings("ignore:Using padding")  # of what it is held against
def test_the_network_is_two_convolutions_and_two_layers():
    """The same numbers from torch's own modules, with our parameters."""
    import torch

    agents, problem = made(fb.environments.GridExplore(size=4, clients=3, length=5), 3)
    shape, nn = agents._shape, torch.nn
    modules = [nn.Conv2d(2, 3, 2, padding="same"), nn.Conv2d(3, 3, 2, padding="same")]
    modules += [nn.Linear(3 * 16 + 1, 8), nn.Linear(8, problem.arms)]
    flat, at = torch.from_numpy(agents.weights[1]), 0
    for module in modules:
        module.double()
        for name in ("weight", "bias"):
            held = getattr(module, name)
            held.data = flat[at : at + held.numel()].reshape(held.shape).clone()
            at += held.numel()
    assert at == shape.size == agents.weights.shape[1]
    seen = torch.from_numpy(np.random.default_rng(1).random((5, shape.inputs + 1)))
    level = torch.relu(modules[1](torch.relu(modules[0](seen[:, :-1].reshape(5, 2, 4, 4)))))
    expected = modules[3](torch.relu(modules[2](torch.cat([level.flatten(1), seen[:, -1:]], 1))))
    torch.testing.assert_close(shape.values(flat, seen), expected)


@needs_torch
def test_what_is_seen_of_a_board_is_where_moves_lead():
    environment = fb.environments.GridExplore(size=4, clients=3, length=5)
    agents, _ = made(environment, 3)
    arms = environment.world(10, np.random.SeedSequence(0)).turn(0).arms
    own, others = agents._shape.seen(1, arms[1]).reshape(2, 16)
    assert own.sum() == pytest.approx(1)
    assert others.sum() == pytest.approx(2)
    np.testing.assert_allclose(own + others, arms[1].reshape(8, 3, -1)[:, :, 8:].mean(axis=0).sum(axis=0))


@needs_torch
def test_a_step_is_that_of_adam_on_the_loss_of_huber():
    """One agent after some turns, against torch.optim on the same batch."""
    import torch

    environment = fb.environments.TeamMDP(clients=2)
    world = environment.world(60, np.random.SeedSequence(0))
    agents = replace(SMALL, every=10**6).agents(world.problem, 2, Streams(np.random.SeedSequence(0), 2))
    for step in range(30):
        turn = world.turn(step)
        picks = agents.choose(turn.who, turn.arms)
        agents.learn(turn.who, turn.arms, picks, world.pay(step, picks).rewards)
    weights = torch.from_numpy(agents.weights[0].copy()).requires_grad_()
    before, optimiser = torch.from_numpy(agents.before[0].copy()), torch.optim.Adam([weights], lr=SMALL.rate)
    for _ in range(2):
        ahead = Streams(np.random.SeedSequence(0), 2)
        ahead.words[:] = agents.rng.words
        rows = (ahead.uniform(np.array([0]), SMALL.batch)[0] * min(agents.kept[0], SMALL.memory)).astype(int)
        with torch.no_grad():
            best = agents._shape.values(before, torch.from_numpy(agents.next[0, rows])).max(dim=1).values
        target = torch.from_numpy(agents.paid[0, rows] + np.where(agents.ended[0, rows], 0.0, best.numpy()))
        values = agents._shape.values(weights, torch.from_numpy(agents.states[0, rows]))
        taken = values[torch.arange(SMALL.batch), torch.from_numpy(agents.actions[0, rows])]
        optimiser.zero_grad()
        torch.nn.HuberLoss()(taken, target).backward()
        optimiser.step()
        agents._train(0)
        np.testing.assert_allclose(agents.weights[0], weights.detach().numpy(), rtol=1e-10, atol=1e-12)


@needs_torch
def test_it_learns_a_small_game():
    """One agent and two stages, where chance is far below what can be had."""
    environment = fb.environments.TeamMDP(clients=1, length=2, states=2)
    given = fb.algorithms.DQNIndependent(hidden=16, explore=400, every=1, batch=16, rate=5e-3)
    trace = fb.simulate(given, environment, horizon=1200, seed=3)
    late = trace.regret[-1] - trace.regret[-200]
    chance = fb.simulate("random", environment, horizon=1200, seed=3)
    assert late < 0.35 * (chance.regret[-1] - chance.regret[-200])
