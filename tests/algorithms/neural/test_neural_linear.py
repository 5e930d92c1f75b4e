"""Neural-linear bandits in company: what is said and counted, who takes part, and what training amounts to."""

from __future__ import annotations

import math

import numpy as np
import pytest

import fedbandits as fb
from fedbandits.algorithms.neural.messages import layer_square, network_slope, standard_reward, trained
from fedbandits.algorithms.neural.neural_linear import NeuralLinear
from fedbandits.contract.errors import ConfigError
from fedbandits.contract.facts import Norms, Range
from fedbandits.contract.ledger import DIRECTIONS, UNITS
from fedbandits.contract.messages import Message
from fedbandits.contract.problem import Problem
from fedbandits.contract.streams import Streams
from fedbandits.environments import Cosine
from fedbandits.models.networks import Architecture, gradients, hidden, outputs
from fedbandits.testing import check_algorithm
from fedbandits.testing.recording import recorded

N, D, M = 3, 4, 6
P, Q = M * (D + 1) + M + 1, M + 1
SMALL = {"width": M, "steps": 4}
WAYS = [DIRECTIONS.index("up"), DIRECTIONS.index("down")]
SCALARS = UNITS.index("scalars")


def world(**parameters):
    return Cosine(**({"clients": N, "dim": D, "arms": 5} | parameters))


def sessions(algorithm, environment, horizon):
    """For every step in which something crossed: the step, the messages, and both sides as they are then."""
    for event in recorded(algorithm, environment, horizon):
        if event.crossed:
            yield event.step, event.crossed, event.side


def test_a_synchronisation_costs_what_the_docstring_says():
    algorithm = NeuralLinear(**SMALL)
    J, before = algorithm.steps, None
    for event in recorded(algorithm, world(), 30):
        counts = event.side.ledger.counts.copy()
        if event.crossed:
            up, down = (counts - (0 if before is None else before))[WAYS, SCALARS] / N
            assert up == 4 + J * (P + 1) + Q * Q + Q + 1
            assert down == J * (P + 2) + (P - Q + 2) + (P - Q + 2 + Q * Q + Q + 1)
        before = counts
    assert before is not None


def test_the_schedule_follows_the_growth_of_data():
    """t - t_last >= max(1, t_last / 10), from the second turn on: about 61 times up to T = 2000."""
    called, last = [], 0
    for t in range(2, 2001):
        if t - last >= max(1, 0.1 * last):
            called.append(t)
            last = t
    assert len(called) in (60, 61)
    seen = [step + 1 for step, _, _ in sessions(NeuralLinear(width=2, steps=1), world(arms=2), 120)]
    assert seen == [t for t in called if t <= 120]


@pytest.mark.parametrize("settled", [0.0, 30.0, np.inf])
def test_training_is_adam_on_everybodys_data(settled):
    """Replayed in numpy from all observations of all agents, as if they lay in one place."""
    algorithm = NeuralLinear(**SMALL, settled=settled)
    mean, square, gathered, done = np.zeros(P), np.zeros(P), 0.0, 0
    network = Architecture(D, (M,), biased=True)
    row = np.array([0])
    tried = 0
    for _, crossed, side in sessions(algorithm, world(), 25):
        data = side.agents.data
        x = np.concatenate([data.arms[i, :, : data.count[i]].T for i in range(N)])
        y = np.concatenate([data.rewards[i, : data.count[i]] for i in range(N)])
        standard = (y - y.mean()) / y.std()
        asked = [message for way, message in crossed if way == "down" and message.kind == "slope"]
        theta = np.concatenate([asked[0].arrays["inner"][0], asked[0].arrays["head"][0]])
        remembered = 0.99 if len(y) >= settled else 0.999
        if len(y) < settled:
            mean, square, gathered, done = np.zeros(P), np.zeros(P), 0.0, 0
        for k in range(done + 1, done + algorithm.steps + 1):
            gaps = outputs(network, theta[None], row, x[None])[0] - standard
            slope = (2 * gaps @ gradients(network, theta[None], row, x[None])[0] + algorithm.decay * theta) / len(y)
            mean, square = 0.9 * mean + 0.1 * slope, remembered * square + (1 - remembered) * slope**2
            gathered = remembered * gathered + 1 - remembered
            step = (mean / (1 - 0.9**k)) / (np.sqrt(square / gathered) + 1e-8)
            theta = theta - algorithm.rate * step
        done += algorithm.steps
        (model,) = (message for way, message in crossed if way == "down" and message.kind == "model")
        told = model.arrays
        np.testing.assert_allclose(told["inner"][0], theta[: P - Q], rtol=1e-6, atol=1e-8)
        z = hidden(network, np.append(told["inner"][0], np.zeros(Q))[None], row, x[None])[0]
        np.testing.assert_allclose(told["gram"][0], z.T @ z, rtol=1e-9, atol=1e-9)
        np.testing.assert_allclose(told["moment"][0], z.T @ standard, rtol=1e-6, atol=1e-7)
        head = np.linalg.solve(z.T @ z + algorithm.ridge * np.eye(Q), z.T @ standard)
        np.testing.assert_allclose(side.server.theta[P - Q :], head, rtol=1e-5, atol=1e-7)
        tried += 1
    assert tried > 5


def test_the_beginning_is_scaled_to_contexts_as_they_are():
    algorithm, environment = NeuralLinear(width=400, steps=1), world(dim=20)
    for _, crossed, _ in sessions(algorithm, environment, 2):
        first = next(message for way, message in crossed if way == "down" and message.kind == "slope")
        # contexts have length 1: W ~ N(0, 2/2)
        assert first.arrays["inner"][0].std() == pytest.approx(1.0, abs=0.05)
        assert first.arrays["head"][0].std() == pytest.approx(400**-0.5, rel=0.15)
        assert first.arrays["head"][0, -1] == 0.0
        return
    pytest.fail("nobody talked")


def test_who_has_seen_one_thing_only_tells_nothing():
    environment = world(schedule="round-robin")
    for step, crossed, side in sessions(NeuralLinear(**SMALL), environment, 12):
        (tally,) = (message for way, message in crossed if message.kind == "tally")
        seen = side.agents.data.count
        np.testing.assert_array_equal(tally.arrays["count"], np.where(seen >= 2, seen, 0))
        assert not tally.arrays["rewards"][seen < 2].any()
        if step < 4:
            assert (seen < 2).any()
            # what they have seen is still theirs
            np.testing.assert_array_equal(side.agents.models.fresh.count[seen < 2], seen[seen < 2])


def alone(parameters=None, agents=N):
    algorithm = NeuralLinear(**(SMALL | (parameters or {})))
    problem = Problem(agents=agents, dim=D, arms=3, horizon=50)
    streams = Streams(np.random.SeedSequence(0), agents, common=np.random.SeedSequence(1))
    return algorithm.agents(problem, agents, streams), algorithm.server(problem, agents, streams)


def learn(agents, who, times, seed=0):
    rng = np.random.default_rng(seed)
    for _ in range(times):
        arms = rng.standard_normal((len(who), 3, D))
        agents.learn(who, arms, rng.integers(3, size=len(who)), rng.standard_normal(len(who)))


def converse(agents, server, reachable, silent_at=None):
    """One conversation with those who can be reached; from question number `silent_at` on nobody answers."""
    said, conversation = [], server.converse(np.array([0]))
    try:
        request = next(conversation)
        while True:
            said.append(request.kind)
            there = np.isin(request.who, reachable) & (silent_at is None or len(said) <= silent_at)
            share = request.of(there)
            reply = agents.answer(share) if there.any() else None
            request = conversation.send(reply or Message(request.kind, share.who))
    except StopIteration:
        return said


def test_who_is_away_is_left_out_and_goes_on_with_what_it_has():
    agents, server = alone()
    learn(agents, np.arange(N), 10)
    assert converse(agents, server, np.arange(N))[-1] == "model"
    learn(agents, np.arange(N), 5, seed=1)
    before = agents.share(2)
    assert converse(agents, server, np.array([0, 1]))[-1] == "model"
    after = agents.share(2)
    for name, array in before.items():
        np.testing.assert_array_equal(after[name], array)
    np.testing.assert_array_equal(agents.pooled, [30, 30, 30])
    np.testing.assert_array_equal(agents.inside, [15, 15, 10])
    assert agents.calling().tolist() == [False, False, True]


def test_a_few_do_not_make_all_forget():
    agents, server = alone({"quorum": 0.5})
    learn(agents, np.arange(N), 10)
    converse(agents, server, np.arange(N))
    learn(agents, np.array([0]), 2, seed=1)
    state = server.state()
    assert converse(agents, server, np.array([0])) == ["open"]  # 12 of 30
    for name, array in server.state().items():
        np.testing.assert_array_equal(array, state[name])
    assert agents.calling()[0]  # and it calls again
    learn(agents, np.array([0]), 3, seed=2)
    assert converse(agents, server, np.array([0]))[-1] == "model"  # 15 of 30


@pytest.mark.parametrize("silent_at", [1, 3, 5])
def test_a_synchronisation_in_which_somebody_falls_silent_changes_nothing(silent_at):
    agents, server = alone()
    learn(agents, np.arange(N), 6)
    converse(agents, server, np.arange(N))
    learn(agents, np.arange(N), 6, seed=3)
    state, mine = server.state(), agents.share(1)
    said = converse(agents, server, np.arange(N), silent_at)
    assert "model" not in said
    for name, array in server.state().items():
        np.testing.assert_array_equal(array, state[name])
    for name, array in agents.share(1).items():
        if name != "data.given":
            np.testing.assert_array_equal(array, mine[name])
    assert agents.calling().all()


def test_what_is_observed_meanwhile_counts_as_observed_afterwards():
    late, after = alone(), alone()
    for agents, _ in (late, after):
        learn(agents, np.arange(N), 8)
    conversation = late[1].converse(np.array([0]))
    request = next(conversation)
    while True:
        reply = late[0].answer(request)
        if request.kind == "open":
            learn(late[0], np.arange(N), 4, seed=9)
        try:
            request = conversation.send(reply or Message(request.kind, request.who))
        except StopIteration:
            break
    converse(after[0], after[1], np.arange(N))
    learn(after[0], np.arange(N), 4, seed=9)
    for name, array in after[0].state().items():
        np.testing.assert_allclose(late[0].state()[name], array, rtol=1e-12, atol=1e-12, err_msg=name)


def test_bounds_are_those_of_single_observations():
    rng = np.random.default_rng(4)
    problem = Problem(agents=1, dim=D, arms=2, horizon=5).knowing(Norms(arms=1.7), Range(-2.0, 3.0))
    network = Architecture(D, (M,), biased=True)
    worst = np.zeros(4)
    for _ in range(300):
        theta = rng.standard_normal(P) * rng.exponential(size=P)
        mean, deviation = rng.normal(), rng.exponential()
        asked = {
            "inner": theta[: P - Q],
            "head": theta[P - Q :],
            "mean": np.array(mean),
            "deviation": np.array(deviation),
        }
        x = rng.standard_normal(D)
        x *= 1.7 / np.linalg.norm(x)
        y = (rng.choice([-2.0, 3.0]) - mean) / deviation
        row, arms = np.array([0]), x[None, None]
        z = hidden(network, theta[None], row, arms)[0, 0]
        slope = (outputs(network, theta[None], row, arms)[0, 0] - y) * gradients(network, theta[None], row, arms)[0, 0]
        asked |= {"steps": np.array(3.0), "rate": np.array(0.1)}
        shares = (
            z @ z / layer_square(problem, asked),
            abs(y) / standard_reward(problem, asked),
            np.linalg.norm(slope) / network_slope(problem, asked),
            np.linalg.norm(theta) / trained(problem, asked),
        )
        worst = np.maximum(worst, shares)
    assert (worst <= 1).all()
    assert (worst > [0.2, 0.95, 0.05, 0.5]).all()  # and not absurdly loose


@pytest.mark.parametrize("explore", ["thompson", "inverse-gap"])
def test_those_who_draw_keep_the_promises(explore):
    check_algorithm(NeuralLinear(**SMALL, explore=explore), world(), horizon=15)


def test_averaging_keeps_the_promises():
    check_algorithm(NeuralLinear(**SMALL, training="averaged", rounds=2), world(), horizon=15)


def test_averages_are_weighted_by_observations():
    agents, server = alone({"training": "averaged", "rounds": 1})
    for agent, times in enumerate((4, 8, 20)):
        learn(agents, np.array([agent]), times, seed=agent)
    conversation = server.converse(np.array([0]))
    request, weighted = next(conversation), None
    while True:
        reply = agents.answer(request)
        if request.kind == "train":
            begin = np.concatenate([request.arrays["inner"][0], request.arrays["head"][0]])
            weighted = reply.arrays["weighted"]
        if request.kind == "layer":
            told = request.arrays["inner"][0]
        try:
            request = conversation.send(reply or Message(request.kind, request.who))
        except StopIteration:
            break
    single = weighted / np.array([4, 8, 20])[:, None]
    np.testing.assert_allclose(told, np.average(single, axis=0, weights=[4, 8, 20])[: P - Q])
    for own in single:
        assert np.linalg.norm(own - begin) > 1e-3
    assert np.linalg.norm(single[0] - single[1]) > 1e-3


def test_gaps_decide_how_often_an_arm_is_drawn():
    agents, server = alone({"explore": "inverse-gap"}, agents=1)
    learn(agents, np.array([0]), 30)
    converse(agents, server, np.array([0]))
    who = np.array([0])
    arms = np.random.default_rng(7).standard_normal((1, 3, D))
    chances = agents.chances(who, arms)[0]
    z = agents.features.of(who, arms)[0]
    means = z @ agents.models.theta[0]
    gamma = 10 * 30**0.75
    expected = 1 / (3 + gamma * (means.max() - means))
    expected[means.argmax()] = 1 - np.delete(expected, means.argmax()).sum()
    np.testing.assert_allclose(chances, expected, rtol=1e-9)
    drawn = np.bincount([agents.choose(who, arms)[0] for _ in range(4000)], minlength=3) / 4000
    np.testing.assert_allclose(drawn, chances, atol=5 * math.sqrt(0.25 / 4000))


def test_rewards_that_do_not_differ_are_no_division_by_zero():
    agents, server = alone()
    for _ in range(4):
        agents.learn(
            np.arange(N), np.random.default_rng(1).standard_normal((N, 3, D)), np.zeros(N, int), np.full(N, 5.0)
        )
    assert converse(agents, server, np.arange(N))[-1] == "model"
    np.testing.assert_array_equal(agents.deviation, 1.0)
    assert np.isfinite(agents.models.theta).all()


def test_parameters_are_checked():
    with pytest.raises(ConfigError, match="width: must be greater than or equal to 1"):
        NeuralLinear(width=0)
    with pytest.raises(ConfigError, match="explore"):
        NeuralLinear(explore="greedy")


def test_company_helps():
    """Regret per agent of five is well below half of that of one, who is far better than chance and than linear."""
    alone = fb.simulate(NeuralLinear(width=20), Cosine(clients=1), 300, seed=11)
    five = fb.simulate(NeuralLinear(width=20), Cosine(clients=5), 300, seed=11)
    linear = fb.simulate("dislinucb", Cosine(clients=5), 300, seed=11)
    assert five.regret[-1] / 5 < 0.5 * alone.regret[-1]
    assert alone.regret[-1] < 0.5 * linear.regret[-1] / 5
