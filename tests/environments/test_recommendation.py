"""The decisions a log poses: who, what is shown, in which order, and what is paid."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from scipy import stats

import fedbandits as fb
from fedbandits.contract.catalogue import ConfigError
from fedbandits.contract.facts import Noise, Norms
from fedbandits.environments import Log, Recommendation, recommendation

ITEMS, DIM = 60, 5
COUNTS = (40, 7, 25, 60)
"""Events of each user."""


def a_log(seed=0):
    rng = np.random.default_rng(seed)
    users = rng.permutation(np.repeat(np.arange(len(COUNTS)), COUNTS))
    return Log(rng.standard_normal((ITEMS, DIM)), users, rng.integers(20, size=len(users)))


LOG = a_log()
EVENTS = len(LOG.users)


def world(seed=0, horizon=1, log=LOG, **parameters):
    return Recommendation(log=log, **({"arms": 6} | parameters)).world(horizon, np.random.SeedSequence(seed))


def everything(world, steps):
    """Per step: who, arms, and which arm is paid."""
    seen = {}
    for step in steps:
        turn = world.turn(step)
        paid = [world.pay(step, np.full(len(turn.who), k)).rewards for k in range(turn.arms.shape[1])]
        seen[step] = (turn.who.tolist(), turn.arms.copy(), np.array(paid).argmax(axis=0).tolist())
    return seen


def same(left, right):
    return left.keys() == right.keys() and all(
        left[t][0] == right[t][0] and left[t][2] == right[t][2] and np.array_equal(left[t][1], right[t][1])
        for t in left
    )


def logged(world, steps):
    """(user, item) of the paid arm of every decision, step by step."""
    seen = everything(world, steps)
    return [[(u, int(world.shown(t)[i, p])) for i, (u, p) in enumerate(zip(who, at, strict=True))]
            for t, (who, _, at) in seen.items()]  # fmt: skip


@pytest.mark.parametrize("schedule", ["one", "all"])
@pytest.mark.parametrize("block", [1, 1000, 2**18])
def test_a_world_is_a_pure_function_of_its_seed_at_every_step(schedule, block, monkeypatch):
    monkeypatch.setattr(recommendation, "_BLOCK", block)
    steps = range(EVENTS if schedule == "one" else max(COUNTS))
    seed = np.random.SeedSequence(3)
    environment = Recommendation(log=LOG, arms=6, schedule=schedule)
    first = everything(environment.world(1, seed), steps)
    assert same(first, everything(environment.world(5, seed), reversed(steps)))
    assert same(first, everything(environment.world(1, np.random.SeedSequence(3)), steps))
    assert not same(first, everything(environment.world(1, np.random.SeedSequence(4)), steps))


@pytest.mark.parametrize("schedule", ["one", "all"])
def test_arms_are_distinct_items_the_logged_one_and_others_the_user_never_took(schedule):
    w = world(schedule=schedule)
    for step in range(EVENTS if schedule == "one" else max(COUNTS)):
        turn, shown = w.turn(step), w.shown(step)
        assert np.array_equal(turn.arms, LOG.features[shown])
        assert turn.arms.transpose(0, 2, 1).flags.c_contiguous
        for user, items, place in zip(turn.who, shown, everything(w, [step])[step][2], strict=True):
            assert len(set(items.tolist())) == 6
            taken = set(LOG.items[LOG.users == user].tolist())
            assert [k for k, item in enumerate(items) if item in taken] == [place]


def test_pays_one_for_the_logged_item_alone_and_regret_is_what_is_left():
    w = world()
    for step in range(20):
        outcomes = [w.pay(step, np.array([k])) for k in range(6)]
        assert sorted(o.rewards[0] for o in outcomes) == [0, 0, 0, 0, 0, 1]
        assert all(o.regrets[0] == 1 - o.rewards[0] for o in outcomes)


def own(events, user):
    return [item for who, item in events if who == user]


def test_every_event_happens_once_and_interleaving_keeps_each_users_order():
    events = [event for step in logged(world(seed=1), range(EVENTS)) for event in step]
    for user in range(len(COUNTS)):
        assert own(events, user) == LOG.items[LOG.users == user].tolist()


def test_shuffling_keeps_the_events_and_not_their_order():
    events = [event for step in logged(world(seed=1, order="shuffled"), range(EVENTS)) for event in step]
    assert sorted(events) == sorted(zip(LOG.users.tolist(), LOG.items.tolist(), strict=True))
    assert own(events, 3) != LOG.items[LOG.users == 3].tolist()


@pytest.mark.parametrize("order", ["interleaved", "shuffled"])
def test_in_rounds_everybody_with_events_left_takes_the_next(order):
    rounds = logged(world(schedule="all", order=order), range(max(COUNTS)))
    for t, events in enumerate(rounds):
        assert [user for user, _ in events] == [user for user, count in enumerate(COUNTS) if count > t]
    for user in range(len(COUNTS)):
        items = [item for events in rounds for who, item in events if who == user]
        assert (items == LOG.items[LOG.users == user].tolist()) == (order == "interleaved")
        assert sorted(items) == sorted(LOG.items[LOG.users == user].tolist())


def test_interleaving_draws_users_not_events():
    # one user has five times the events of the other; until one runs out both are drawn equally often
    users = np.repeat([0, 1], [2000, 400])
    w = world(log=Log(np.eye(9), users, users), arms=3)
    first = sum(int(w.turn(t).who[0]) for t in range(400))
    assert stats.binomtest(first, 400, 0.5).pvalue > 1e-3


def test_the_logged_item_may_stand_anywhere_and_the_others_are_uniform():
    taken = [0, 1, 4, 7, 19]
    users, items = np.zeros(20_000, dtype=int), np.tile(taken, 4000)
    w = world(log=Log(np.eye(20), users, items), arms=6)
    shown = np.array([w.shown(t)[0] for t in range(len(users))])
    positive = np.isin(shown, taken)
    assert (positive.sum(axis=1) == 1).all()
    assert stats.chisquare(positive.sum(axis=0)).pvalue > 1e-3
    free = np.setdiff1d(np.arange(20), taken)
    for place in range(6):  # uniform in every place, hence also in random order
        counts = np.bincount(shown[~positive[:, place], place], minlength=20)
        assert stats.chisquare(counts[free]).pvalue > 1e-4
    left, right = shown[positive[:, 5], 0], shown[positive[:, 5], 1]
    pairs = np.array([(left == a) & (right == b) for a in free for b in free if a != b]).sum(axis=1)
    assert stats.chisquare(pairs).pvalue > 1e-3


def test_shows_everything_there_is_when_that_is_just_enough():
    log = Log(np.eye(6), np.zeros(4, dtype=int), np.array([5, 0, 2, 5]))
    w = world(log=log, arms=4)
    assert all(set(w.shown(t)[0].tolist()) == {1, 3, 4, item} for t, item in enumerate([5, 0, 2, 5]))
    with pytest.raises(ConfigError, match="arms: at most 4, since a user took 3 of 6 items"):
        world(log=log, arms=5)


def test_bias_appends_a_constant():
    plain, biased = world(), world(bias=True)
    assert (plain.problem.dim, biased.problem.dim) == (DIM, DIM + 1)
    assert np.array_equal(biased.shown(3), plain.shown(3))
    assert (biased.turn(3).arms[..., -1] == 1).all()
    assert np.array_equal(biased.turn(3).arms[..., :-1], LOG.features[biased.shown(3)])


def test_tells_algorithms_the_sizes_and_the_noise_of_a_unit_reward():
    problem = world(horizon=9, arms=7).problem
    assert (problem.agents, problem.dim, problem.arms, problem.horizon) == (len(COUNTS), DIM, 7, 9)
    assert (problem.get(Noise, Noise()).sigma, problem.get(Norms, Norms()).parameter) == (0.5, 1.0)
    assert world(noise=0.1).problem.get(Noise) == Noise(0.1)


@pytest.mark.parametrize(("schedule", "longest"), [("one", EVENTS), ("all", max(COUNTS))])
def test_the_horizon_ends_with_the_log(schedule, longest):
    w = world(horizon=longest, schedule=schedule)
    with pytest.raises(ConfigError, match=f"horizon: at most {longest}"):
        world(horizon=longest + 1, schedule=schedule)
    with pytest.raises(IndexError, match="outside"):
        w.turn(longest)


@pytest.mark.parametrize(
    ("fault", "message"),
    [
        ({"features": np.full((ITEMS, 2), np.nan)}, "features: must be a finite"),
        ({"features": np.zeros(ITEMS)}, "features: must be a finite"),
        ({"users": np.array([0, 2]), "items": np.array([1, 1])}, "each with at least one event"),
        ({"users": np.array([-1, 0]), "items": np.array([1, 1])}, "users: must be 0"),
        ({"users": np.array([0]), "items": np.array([ITEMS])}, f"items: must lie in 0..{ITEMS - 1}"),
        ({"users": np.array([0])}, "one of each per event"),
        ({"users": np.array([0.5]), "items": np.array([1])}, "users: must be a one-dimensional integer"),
        ({"users": np.array([], dtype=int), "items": np.array([], dtype=int)}, "one of each per event"),
    ],
)
def test_a_log_that_makes_no_sense_is_refused(fault, message):
    with pytest.raises(ConfigError, match=message):
        Log(**({"features": LOG.features, "users": LOG.users, "items": LOG.items} | fault))


def test_keeps_users_with_enough_events():
    at, users = recommendation.active(np.array([9, 4, 9, 7, 4, 9]), 2)
    assert at.tolist() == [0, 1, 2, 4, 5]
    assert users.tolist() == [1, 0, 1, 0, 1]
    with pytest.raises(ConfigError, match="no user has 4 events; the most active one has 3"):
        recommendation.active(np.array([9, 4, 9, 7, 4, 9]), 4)


def test_federated_rounds_run_to_the_end_with_ever_fewer_awake():
    environment = pickle.loads(pickle.dumps(Recommendation(log=LOG, arms=6, schedule="all")))
    trace = fb.simulate(fb.algorithms.DisLinUCB(threshold=0.1), environment, horizon=max(COUNTS))
    assert trace.decisions[-1] == EVENTS
    assert np.diff(trace.decisions).tolist() == [sum(count > t for count in COUNTS) for t in range(1, max(COUNTS))]
    assert trace.syncs[-1] > 0
    assert np.array_equal(trace.regret + trace.reward, trace.decisions)


def test_a_random_policy_earns_its_share():
    users = np.repeat([0, 1], 4000)
    log = Log(np.eye(12), users, users)
    trace = fb.simulate(fb.algorithms.Random(), Recommendation(log=log, arms=5), horizon=8000)
    assert stats.binomtest(int(trace.reward[-1]), 8000, 1 / 5).pvalue > 1e-3
