"""RCLB: what is pulled, what is kept, who is waited for, and what liars can do."""

from __future__ import annotations

import numpy as np
import pytest

import fedbandits as fb
from fedbandits.contract.facts import Noise
from fedbandits.contract.messages import Message
from fedbandits.contract.problem import Problem
from fedbandits.contract.streams import Streams

ENV = fb.environments.LinearFixed(clients=10, dim=3, arms=5, noise=0.3)
K, D, N = 4, 3, 10
PROBLEM = Problem(agents=N, dim=D, arms=K, horizon=1000).knowing(Noise(0.5))
ARMS = np.vstack([np.eye(D), np.full(D, 0.5)])
RNG = Streams(np.random.SeedSequence(0), N)


def shown(n: int) -> np.ndarray:
    return np.repeat(ARMS[None], n, axis=0)


def play(agents, who, reward=lambda pick: 0.0) -> np.ndarray:
    picks = agents.choose(who, shown(len(who)))
    agents.learn(who, shown(len(who)), picks, np.array([reward(pick) for pick in picks]))
    return picks


def test_the_design_is_pulled_and_then_it_calls():
    """Every direction is pulled as often as its variance asks: sigma^2 a^T V^+ a <= 1.05 (e_1/z_0)^2 for all arms."""
    algorithm = fb.algorithms.RCLB()
    agents, who = algorithm.agents(PROBLEM, 1, RNG), np.zeros(1, np.int64)
    steps = 0
    while not agents.calling()[0]:
        assert agents.urgency()[0] < 1
        play(agents, who)
        steps += 1
    pulls = agents.pulls[0]
    assert pulls.sum() == steps
    assert agents.urgency()[0] == 1
    variance = 0.25 * np.einsum("ki,ij,kj->k", ARMS, np.linalg.pinv((ARMS * pulls[:, None]).T @ ARMS), ARMS)
    wanted = (0.5 / algorithm.width(PROBLEM, 1, N, 0)) ** 2
    assert variance.max() <= 1.05 * wanted
    assert variance.max() > 0.3 * wanted
    before = agents.state()
    play(agents, who, lambda pick: 9.0)  # who waits plays on, and what it sees then is left aside
    np.testing.assert_array_equal(agents.state()["sums"], before["sums"])


def test_estimates_are_least_squares_and_cut():
    agents, who = fb.algorithms.RCLB().agents(PROBLEM, 1, RNG), np.zeros(1, np.int64)
    theta, rng = np.array([0.4, -0.2, 0.1]), np.random.default_rng(0)
    seen = []
    while not agents.calling()[0]:
        noise = rng.standard_normal()
        pick = play(agents, who, lambda pick, noise=noise: ARMS[pick] @ theta + noise)[0]
        seen.append((ARMS[pick], ARMS[pick] @ theta + noise))
    x, y = map(np.array, zip(*seen, strict=True))
    expected = ARMS @ np.linalg.lstsq(x, y, rcond=None)[0]
    reply = agents.answer(Message("phase", who, {"phase": np.ones(1, np.int64)}))
    np.testing.assert_allclose(reply.arrays["means"][0], np.clip(expected, -1, 1))
    assert reply.arrays["ready"][0] == 1
    other = agents.answer(Message("phase", who, {"phase": np.full(1, 2)}))
    assert not other.arrays["ready"].any()
    assert not other.arrays["means"].any()


def ended(server, means, ready=None) -> tuple[Message, Message]:
    """Let a phase end with the given answers (n, K); the two requests."""
    conversation = server.converse(np.arange(len(means)))
    asked = next(conversation)
    told = np.ones(len(means)) if ready is None else ready
    following = conversation.send(Message("estimates", np.arange(len(means)), {"means": means, "ready": told}))
    return asked, following


def test_arms_below_the_best_by_twice_the_width_are_dropped():
    algorithm = fb.algorithms.RCLB(share=0.0)
    server = algorithm.server(PROBLEM, N, RNG)
    width = np.sqrt(1.05) * 0.5
    means = np.tile([0.9, 0.9 - 2 * width - 1e-9, 0.9 - 2 * width + 1e-9, 0.0], (N, 1))
    asked, following = ended(server, means)
    assert asked.arrays["phase"][0] == 1
    np.testing.assert_array_equal(following.arrays["active"][0], [True, False, True, True])
    assert following.arrays["phase"][0] == 2
    assert server.best == 0


def test_a_minority_cannot_make_it_drop_the_best_arm():
    algorithm = fb.algorithms.RCLB(share=0.4)
    for lie in (1e9, -1e9):
        server = algorithm.server(PROBLEM, N, RNG)
        means = np.tile([0.9, 0.5, 0.0, -0.9], (N, 1))
        means[:4] = [-lie, lie, lie, lie]
        _, following = ended(server, means)
        assert following.arrays["active"][0][0]


def test_who_is_silent_stops_nobody():
    """With a fifth of liars two of ten may not even call; three are too many."""
    server = fb.algorithms.RCLB(share=0.2).server(PROBLEM, N, RNG)
    assert list(server.converse(np.arange(7))) == []
    assert next(server.converse(np.arange(8))).kind == "phase"
    means, ready = np.tile([0.9, 0.0, 0.0, -0.9], (N, 1)), np.ones(N)
    ready[:2] = 0
    ended(server, means, ready)
    assert server.phase == 2
    ready[:6] = 0  # two of four may lie: no majority
    ended(server, means, ready)
    assert server.phase == 2


def test_who_missed_a_phase_is_told_of_the_next_one():
    agents = fb.algorithms.RCLB().agents(PROBLEM, 2, RNG)
    both = np.arange(2)
    play(agents, both)
    told = {"phase": np.array([3, 3]), "active": np.array([[True, True, False, False]] * 2), "best": np.array([1, 1])}
    agents.answer(Message("next", both, told))
    assert not agents.needed[:, 2:].any()
    assert agents.needed[:, :2].all()
    assert not agents.pulls.any()
    play(agents, both)
    agents.answer(Message("next", both, told))  # again: nothing that was done is lost
    assert (agents.pulls.sum(axis=1) == 1).all()


def test_other_arms_are_refused():
    agents, who = fb.algorithms.RCLB().agents(PROBLEM, 1, RNG), np.zeros(1, np.int64)
    play(agents, who)
    for arms, why in ((shown(1)[:, ::-1], "fixed set"), (shown(1)[:, :3], "3 are shown, of a fixed set of 4")):
        with pytest.raises(ValueError, match=why):
            agents.choose(who, np.ascontiguousarray(arms))
    with pytest.raises(ValueError, match="linear-fixed"):
        fb.simulate("rclb", fb.environments.Linear(clients=4, dim=3, arms=5), 10)
    with pytest.raises(fb.ConfigError, match="leave it out"):
        fb.environments.LinearFixed(pool=30)


def test_the_environment_shows_the_same_arms_to_everybody():
    world = ENV.world(50, np.random.SeedSequence(1))
    first = world.turn(0).arms
    assert (first == first[0]).all()
    for step in (1, 30, 49):
        np.testing.assert_array_equal(world.turn(step).arms, first)
    theta = world.parameters()
    outcome = world.pay(3, np.full(10, 2))
    means = first[0] @ theta[0]
    np.testing.assert_allclose(outcome.regrets, means.max() - means[2])


def test_the_best_arm_survives():
    """In 10 runs with a fifth of liars, which the widths are made for; delta is a tenth, and the bound is loose."""
    lost = 0
    for seed in range(10):
        run = fb.Simulation("rclb:share=0.2", ENV, 300, seed, attack="collude:share=0.2")
        run.run()
        means = run.world.turn(0).arms[0] @ run.world.parameters()[0]
        lost += not run.server.active[means.argmax()]
    assert lost <= 1


@pytest.mark.slow
def test_liars_cost_little_and_plain_sums_cost_all():
    env = fb.environments.LinearFixed(clients=20, dim=5, arms=10, noise=0.5)

    def regret(words, attack):
        return np.mean([fb.simulate(words, env, 2000, seed, attack=attack).honest_regret[-1] for seed in range(5)])

    attack = "inflate:share=0.2"
    assert regret("rclb", attack) < 2 * regret("rclb", "inflate:share=0")
    assert regret("rclb", attack) < regret("dislinucb:threshold=20", attack) / 3
