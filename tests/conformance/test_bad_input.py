"""Bad input gets a `ValueError` that names what is wrong, before anything has changed."""

from __future__ import annotations

import numpy as np
import pytest

from conformance.subjects import HORIZON, NAMES, home, population, problem_of, same, talkative
from fedbandits.contract.streams import Streams


@pytest.fixture(params=NAMES)
def scene(request):
    """A population with some experience, and one well-formed step for three of its agents."""
    name = request.param
    world = home(name).world(HORIZON, np.random.SeedSequence(2))
    agents = population(name, problem_of(name))
    for step in range(4):
        turn = world.turn(step)
        picks = agents.choose(turn.who, turn.arms)
        agents.learn(turn.who, turn.arms, picks, world.pay(step, picks).rewards)
    who = np.array([4, 0, 2])
    arms = np.ascontiguousarray(world.turn(4).arms[who])
    return agents, who, arms, np.array([1, 0, 6]), np.array([0.5, 0.25, 0.125])


def refused(agents, call, match):
    before = agents.state()
    with pytest.raises(ValueError, match=match):
        call()
    assert same(agents.state(), before), "the refused call changed the population"


BAD_WHO = {
    "two-dimensional": (lambda who: who[:, None], "who"),
    "not integers": (lambda who: who.astype(float), "who"),
    "negative": (lambda who: who - 1, "who"),
    "beyond the population": (lambda who: who + 2, "who"),
    "twice": (lambda who: np.array([2, 0, 2]), "twice"),
}

BAD_ARMS = {
    "of one agent": (lambda arms: arms[0], "arms"),
    "for too few agents": (lambda arms: arms[:2], "arms"),
    "of too low dimension": (lambda arms: arms[:, :, :-1], "arms"),
    "of too high dimension": (lambda arms: np.concatenate([arms, arms], axis=2), "arms"),
    "none at all": (lambda arms: arms[:, :0], "no arm"),
    "in single precision": (lambda arms: arms.astype(np.float32), "float64"),
    "complex": (lambda arms: arms.astype(complex), "float64"),
    "objects": (lambda arms: arms.astype(object), "float64"),
}


@pytest.mark.parametrize("case", BAD_WHO)
def test_bad_who(scene, case):
    agents, who, arms, picks, rewards = scene
    spoil, match = BAD_WHO[case]
    refused(agents, lambda: agents.choose(spoil(who), arms), match)
    refused(agents, lambda: agents.learn(spoil(who), arms, picks, rewards), match)


@pytest.mark.parametrize("case", BAD_ARMS)
def test_bad_arms(scene, case):
    agents, who, arms, picks, rewards = scene
    spoil, match = BAD_ARMS[case]
    refused(agents, lambda: agents.choose(who, spoil(arms)), match)
    refused(agents, lambda: agents.learn(who, spoil(arms), picks, rewards), match)


@pytest.mark.parametrize("place", ["first", "middle", "last"])
@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_an_arm_that_is_not_finite_is_not_chosen_from(scene, value, place):
    """One bad coordinate of one arm of one agent is enough, wherever the arm stands."""
    agents, who, arms, _, _ = scene
    spoilt = arms.copy()
    spoilt[1, {"first": 0, "middle": 3, "last": -1}[place], 2] = value
    refused(agents, lambda: agents.choose(who, spoilt), "finite")


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_a_chosen_arm_that_is_not_finite_is_not_learned(scene, value):
    agents, who, arms, picks, rewards = scene
    spoilt = arms.copy()
    spoilt[2, picks[2], 0] = value
    refused(agents, lambda: agents.learn(who, spoilt, picks, rewards), "finite")


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_a_reward_that_is_not_finite_is_not_learned(scene, value):
    agents, who, arms, picks, rewards = scene
    spoilt = rewards.copy()
    spoilt[1] = value
    refused(agents, lambda: agents.learn(who, arms, picks, spoilt), "reward")


BAD_PICKS = {
    "negative": lambda picks: picks - 1,
    "beyond the shown arms": lambda picks: picks + 1,
    "too few": lambda picks: picks[:2],
    "two-dimensional": lambda picks: picks[:, None],
    "not integers": lambda picks: picks.astype(float),
}

BAD_REWARDS = {
    "too few": lambda rewards: rewards[:2],
    "two-dimensional": lambda rewards: rewards[:, None],
    "complex": lambda rewards: rewards.astype(complex),
    "text": lambda rewards: rewards.astype(str),
    "objects": lambda rewards: rewards.astype(object),
}


@pytest.mark.parametrize("case", BAD_PICKS)
def test_bad_picks(scene, case):
    agents, who, arms, picks, rewards = scene
    refused(agents, lambda: agents.learn(who, arms, BAD_PICKS[case](picks), rewards), "picks")


@pytest.mark.parametrize("case", BAD_REWARDS)
def test_bad_rewards(scene, case):
    agents, who, arms, picks, rewards = scene
    refused(agents, lambda: agents.learn(who, arms, picks, BAD_REWARDS[case](rewards)), "rewards")


def test_the_untouched_step_is_fine(scene):
    """Guards the cases above: each of them spoils a step that would pass."""
    agents, who, arms, picks, rewards = scene
    chosen = agents.choose(who, arms)
    assert chosen.shape == (3,)
    assert chosen.dtype == np.int64
    agents.learn(who, arms, picks, rewards)


def test_a_step_in_which_nobody_is_awake_is_fine_and_changes_nothing(scene):
    agents, who, arms, picks, rewards = scene
    before = agents.state()
    assert agents.choose(who[:0], arms[:0]).shape == (0,)
    agents.learn(who[:0], arms[:0], picks[:0], rewards[:0])
    assert same(agents.state(), before)


def test_a_snapshot_that_does_not_fit_is_refused(scene):
    agents = scene[0]
    good = agents.state()
    for name, array in good.items():
        refused(agents, lambda: agents.load({k: v for k, v in good.items() if k != name}), name)  # noqa: B023
        other = array[:-1] if len(array) else np.zeros((1, *array.shape[1:]), array.dtype)
        refused(agents, lambda: agents.load(good | {name: other}), name)  # noqa: B023
        refused(agents, lambda: agents.load(good | {name: array.astype(np.float32)}), name)  # noqa: B023
    refused(agents, lambda: agents.load(good | {"surplus": np.zeros(1)}), "surplus")


@pytest.mark.parametrize("name", NAMES)
def test_the_snapshot_of_another_population_is_refused(name):
    problem = problem_of(name)
    small, large = (talkative(name).agents(problem, n, Streams(np.random.SeedSequence(0), n)) for n in (2, 3))
    refused(small, lambda: small.load(large.state()), "snapshot")
