"""What episodes bring, counted agent by agent and turn by turn, with early ends and agents that are away."""

from __future__ import annotations

import numpy as np
import pytest

import fedbandits as fb

LENGTH = 6


class Ending(fb.environments.RandomMDP):
    """Episodes are over early in the last state."""

    def _limits(self, states):
        return np.full(states, 1 / states), np.arange(states) == states - 1


ENV = Ending(clients=5, length=LENGTH, states=4, arms=2, stragglers=0.4, presence=0.5)
COLUMNS = ("episodes", "finished_reward", "finished_regret", "recent_return")


def run_of(env=ENV, horizon=700, seed=3):
    return fb.Simulation("random", env, horizon, seed)


def counted(run):
    """Every column once more, from the turns themselves, one agent after the other."""
    world, seen = run.world, []
    turn, pay = world.turn, world.pay

    def paid(step, picks):
        shown = turn(step)
        outcome = pay(step, picks)
        alive = [bool(arms.any()) for arms in shown.arms]
        seen.append(list(zip(shown.who.tolist(), alive, outcome.rewards, outcome.regrets, strict=True)))
        return outcome

    world.pay = paid
    run.run()
    open_, finished = {}, {}
    rows = []
    for step in seen:
        for agent, alive, reward, regret in step:
            episode = open_.setdefault(agent, [])
            if alive:
                episode.append((reward, regret))
            if len(episode) == LENGTH or (not alive and episode):
                finished.setdefault(agent, []).append(np.sum(episode, axis=0))
                open_[agent] = []
        all_of = [episode for own in finished.values() for episode in own]
        last = [episode[0] for own in finished.values() for episode in own[-50:]]
        rows.append([len(all_of), *np.sum(all_of or [(0.0, 0.0)], axis=0), np.mean(last) if last else np.nan])
    return np.array(rows), {agent: len(own) for agent, own in finished.items()}


def test_columns_are_those_of_a_count_agent_by_agent():
    run = run_of()
    rows, numbers = counted(run)
    trace = run.trace()
    for at, name in enumerate(COLUMNS):
        np.testing.assert_allclose(getattr(trace, name), rows[:, at], rtol=1e-12, err_msg=name)
    assert len(set(numbers.values())) > 1, "agents are not in step"
    assert max(numbers.values()) > 50, "more than the mean is over"
    assert trace.decisions[-1] / trace.episodes[-1] < LENGTH - 0.5, "some are over early"


def test_a_run_that_was_stopped_in_mid_episode_goes_on_to_the_bit():
    whole = run_of()
    whole.run()
    first = run_of()
    first.run(301)
    second = run_of()
    second.load(first.state())
    second.run()
    for name in COLUMNS:
        np.testing.assert_array_equal(getattr(whole.trace(), name), getattr(second.trace(), name), err_msg=name)


@pytest.mark.parametrize(
    ("env", "solved"), [("riverswim:clients=2,length=5", True), ("team-mdp", True), ("grid-explore", False)]
)
def test_value_regret_is_there_where_values_are_known(env, solved):
    trace = fb.simulate("random", env, 60, 0)
    assert np.isfinite(trace.finished_regret).all() == solved
    assert trace.finished_reward[-1] <= trace.reward[-1] + 1e-9
    if solved:
        assert 0 < trace.finished_regret[-1] <= trace.regret[-1] + 1e-9


def test_bandits_have_no_episodes():
    trace = fb.simulate("random", "linear", 5, 0)
    for name in COLUMNS:
        assert np.isnan(getattr(trace, name)).all()
