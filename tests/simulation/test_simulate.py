"""The round loop."""

from __future__ import annotations

import numpy as np
import pytest

import fedbandits as fb
from fedbandits.algorithms import CentralLinUCB, DisLinUCB, IndependentLinUCB, Random
from fedbandits.environments import Linear

ENV = Linear(clients=4, dim=3, arms=5)


def test_a_trace_is_what_happened():
    """Replayed by hand: the world's outcomes, summed."""
    trace = fb.simulate(Random(), ENV, 30, seed=6)
    run = fb.Simulation(Random(), ENV, 30, seed=6)
    regret, reward = [], []
    by_client = np.zeros(4)
    for step in range(30):
        turn = run.world.turn(step)
        outcome = run.world.pay(step, run.agents.choose(turn.who, turn.arms))
        regret.append(outcome.regrets.sum())
        reward.append(outcome.rewards.sum())
        by_client[turn.who] += outcome.regrets
    np.testing.assert_allclose(trace.regret, np.cumsum(regret))
    np.testing.assert_allclose(trace.reward, np.cumsum(reward))
    np.testing.assert_allclose(trace.regret_by_client, by_client)
    np.testing.assert_array_equal(trace.decisions, 4 * np.arange(1, 31))
    assert trace.regret_by_client.sum() == pytest.approx(trace.regret[-1])


def test_two_algorithms_under_one_seed_face_the_same_world():
    """Arms and, for the same choice, noise: where both choose alike they are paid alike."""
    runs = [fb.Simulation(algorithm, ENV, 20, seed=4) for algorithm in (Random(), CentralLinUCB())]
    for step in range(20):
        turns = [run.world.turn(step) for run in runs]
        np.testing.assert_array_equal(turns[0].arms, turns[1].arms)
        picks = np.full(4, step % 5)
        paid = [run.world.pay(step, picks).rewards for run in runs]
        np.testing.assert_array_equal(*paid)
        for run in runs:
            run.run(steps=1)


def test_the_algorithms_draws_do_not_touch_the_world():
    """Thompson sampling of any spread sees the same arms."""
    runs = [fb.Simulation(fb.algorithms.IndependentLinTS(nu=nu), ENV, 20, seed=1) for nu in (0.1, 5.0)]
    for run in runs:
        run.run()
    np.testing.assert_array_equal(runs[0].world.turn(19).arms, runs[1].world.turn(19).arms)
    assert runs[0].trace().regret[-1] != runs[1].trace().regret[-1]


def test_a_run_can_be_divided():
    whole = fb.Simulation(DisLinUCB(threshold=0.5), ENV, 30)
    whole.run()
    parts = fb.Simulation(DisLinUCB(threshold=0.5), ENV, 30)
    for steps in (1, 4, 0, 20, 99):
        parts.run(steps)
    assert int(parts.at) == 30
    np.testing.assert_array_equal(parts.trace().regret, whole.trace().regret)
    np.testing.assert_array_equal(parts.trace().counts, whole.trace().counts)


def test_a_trace_covers_the_steps_taken():
    run = fb.Simulation(DisLinUCB(threshold=0.5), ENV, 30)
    assert run.trace().regret.shape == (0,)
    run.run(7)
    early = run.trace()
    assert early.regret.shape == early.messages.shape == (7,)
    run.run()
    np.testing.assert_array_equal(run.trace().regret[:7], early.regret)
    assert early.regret.shape == (7,)


def test_progress_is_told_and_ends_at_the_horizon():
    told = []
    fb.simulate(Random(), ENV, 50, progress=told.append)
    assert told[-1] == 50
    assert told == sorted(told)


@pytest.mark.parametrize(
    ("arguments", "match"),
    [
        ({"horizon": 0}, "horizon: must be at least 1"),
        ({"horizon": -5}, "horizon"),
        ({"horizon": 5, "seed": -1}, "seed"),
    ],
)
def test_bad_arguments(arguments, match):
    with pytest.raises(fb.ConfigError, match=match):
        fb.simulate(Random(), ENV, **arguments)


def test_packing_is_a_choice_of_the_wire():
    plain = fb.simulate(CentralLinUCB(), ENV, 10)
    packed = fb.simulate(CentralLinUCB(), ENV, 10, wire=fb.Wire(packed=True))
    np.testing.assert_array_equal(plain.regret, packed.regret)
    assert plain.scalars[-1] == 10 * 8 * (9 + 3)
    assert packed.scalars[-1] == 10 * 8 * (6 + 3)
    assert packed.bytes[-1] < plain.bytes[-1]


def test_a_failing_snapshot_changes_nothing_even_late():
    """The last part to be loaded fails after the others were: all of them are put back."""
    run = fb.Simulation(IndependentLinUCB(), ENV, 30)
    run.run(5)
    before = run.state()
    donor = fb.Simulation(IndependentLinUCB(), ENV, 30)
    donor.run(20)
    with pytest.raises(ValueError, match="by_agent"):
        run.load(donor.state() | {"by_agent": np.zeros(9)})
    for name, array in run.state().items():
        np.testing.assert_array_equal(array, before[name])


def test_a_snapshot_of_another_horizon_is_refused():
    short, long = (fb.Simulation(Random(), ENV, horizon) for horizon in (10, 20))
    with pytest.raises(ValueError, match="regret"):
        short.load(long.state())


def test_an_error_in_a_step_leaves_the_steps_before_it():
    run = fb.Simulation(IndependentLinUCB(), ENV, 30)
    run.run(5)

    def breaks(step, picks):
        raise RuntimeError("the environment is gone")

    run.world.pay = breaks
    with pytest.raises(RuntimeError, match="gone"):
        run.run()
    assert int(run.at) == 5
    assert run.trace().regret.shape == (5,)


def test_coverage_is_checked_only_when_asked_for_and_notices_a_width_that_is_too_small():
    environment = fb.environments.Linear(clients=8, dim=4, arms=5)
    honest = fb.algorithms.IndependentLinUCB()
    assert np.isnan(fb.simulate(honest, environment, 50).coverage).all()
    trace = fb.simulate(honest, environment, 50, coverage=True)
    assert trace.coverage[-1] == 1.0
    assert trace.frame()["coverage"].iloc[-1] == 1.0
    bold = fb.simulate(fb.algorithms.IndependentLinUCB(width=1e-3), environment, 50, coverage=True)
    assert bold.coverage[-1] == 0.0
    assert (np.diff(bold.coverage) <= 0).all()


def test_coverage_of_agents_that_share_a_wrong_model_is_lost():
    environment = fb.environments.ClusteredLinear(clients=8, dim=4, arms=5, pool=50, clusters=3)
    trace = fb.simulate(fb.algorithms.CentralLinUCB(), environment, 200, coverage=True)
    assert trace.coverage[-1] < 0.5


def test_coverage_survives_a_stop():
    environment = fb.environments.Linear(clients=4, dim=3, arms=5)
    whole = fb.Simulation(fb.algorithms.IndependentLinUCB(width=0.3), environment, 60, coverage=True)
    whole.run()
    first = fb.Simulation(fb.algorithms.IndependentLinUCB(width=0.3), environment, 60, coverage=True)
    first.run(25)
    second = fb.Simulation(fb.algorithms.IndependentLinUCB(width=0.3), environment, 60, coverage=True)
    second.load(first.state())
    second.run()
    np.testing.assert_array_equal(whole.trace().coverage, second.trace().coverage)


class TestPrivacy:
    ENV = fb.environments.BernoulliArms(clients=7, arms=3)

    def test_a_private_run_says_what_each_agent_has_spent(self):
        private = fb.algorithms.PrivateFedUCB(epsilon=3.0, delta=1e-3)
        trace = fb.simulate(private, self.ENV, 400, network=fb.network.Ring())
        assert trace.privacy is not None
        assert trace.privacy.epsilon.shape == (7,)
        assert (trace.privacy.epsilon > 0).all()
        assert (trace.privacy.epsilon <= 3.0).all()
        assert trace.privacy.delta == 1e-3
        assert (np.diff(trace.epsilon) >= 0).all()
        assert trace.epsilon[-1] == trace.frame(10)["epsilon"].iloc[-1] == trace.privacy.epsilon.max()

    def test_others_say_nothing(self):
        trace = fb.simulate(fb.algorithms.UCB1(), self.ENV, 20)
        assert trace.privacy is None
        assert np.isnan(trace.epsilon).all()

    def test_what_is_published_as_private_but_leaks_is_not_called_private(self):
        leaky = fb.algorithms.PrivateFedUCB(schedule=1.0, own="clean")
        trace = fb.simulate(leaky, self.ENV, 50, network=fb.network.Ring())
        assert trace.privacy is not None
        assert np.isinf(trace.privacy.epsilon).all()
