"""Games: boards are counted by hand, tables are solved by exhaustion."""

import itertools

import numpy as np
import pytest

import fedbandits as fb
from fedbandits.contract.facts import Game
from fedbandits.environments.planning.team_mdp import undominated


def board(seed=0, **parameters):
    env = fb.environments.GridExplore(**({"size": 4, "clients": 3, "length": 6} | parameters))
    return env.world(60, np.random.SeedSequence(seed))


@pytest.mark.parametrize("credit", ["team", "own"])
@pytest.mark.parametrize("radius", [0, 1])
def test_rewards_are_cells_that_are_new(credit, radius):
    world = board(credit=credit, radius=radius)
    rng = np.random.default_rng(1)

    def around(cell):
        row, column = divmod(int(cell), 4)
        return {4 * i + j for i in range(4) for j in range(4) if max(abs(i - row), abs(j - column)) <= radius}

    for step in range(30):
        if step % 6 == 0:
            known = [around(cell) for cell in world.cell]
            everybody = set().union(*known)
        where = world.turn(step).arms.reshape(3, 8, 3, 24)[:, :, :, 8:].argmax(axis=3)
        picks = rng.integers(8, size=3)
        outcome = world.pay(step, picks)
        gone = [around(where[i, picks[i], i]) for i in range(3)]
        for i in range(3):
            assert outcome.rewards[i] == len(gone[i] - (known[i] if credit == "own" else everybody))
        assert (outcome.regrets >= 0).all()
        known = [old | new for old, new in zip(known, gone, strict=True)]
        everybody |= set().union(*gone)


@pytest.mark.parametrize(("visibility", "sizes"), [("full", [5] * 5), ("partial", [2, 2, 3, 3, 3]), ("self", [1] * 5)])
def test_who_sees_whom(visibility, sizes):
    world = board(visibility=visibility, clients=5)
    seen = world.turn(0).arms.reshape(5, 8, 5, -1).any(axis=(1, 3))
    assert sorted(seen.sum(axis=1)) == sizes
    assert (seen == seen.T).all()
    for agent, row in enumerate(world.problem.get(Game).sees):
        assert set(row) == set(np.flatnonzero(seen[agent]))


def test_places_are_the_same_or_others_in_every_episode():
    for placed, same in (("once", True), ("anew", False)):
        world = board(placed=placed)
        first = world.cell.copy()
        for step in range(6):
            world.pay(step, np.zeros(3, dtype=np.int64))
        assert (world.cell == first).all() == same
        assert world.path.shape == (3, 7)
        assert (world.path[:, 0] == first).all()


def test_fronts_and_optima_by_exhaustion():
    """All 4^3 ways through a game of three stages."""
    world = fb.environments.TeamMDP(length=3).world(30, np.random.SeedSequence(4))
    ends = []
    for way in itertools.product(range(4), repeat=3):
        x, earned = 0, np.zeros(2)
        for action in way:
            earned, x = earned + world.pays[x, action], world.leads[x, action]
        ends.append(earned)
    ends = np.array(ends)
    np.testing.assert_allclose(world.front(), undominated(ends))
    for weights in ([0.5, 0.5], [0.9, 0.1]):
        assert world.solved(np.array(weights))[0][0, 0] == pytest.approx((ends @ weights).max())


def test_the_bayes_regret_falls_to_zero_as_the_front_is_played():
    world = fb.environments.TeamMDP(length=2).world(30, np.random.SeedSequence(4))
    assert world.bayes_regret() is None
    seen = []
    for step, picks in enumerate(
        itertools.chain.from_iterable(itertools.product(itertools.product((0, 1), repeat=2), repeat=2))
    ):
        world.pay(step, np.array(picks))
        seen.append(world.bayes_regret())
    finished = [value for value in seen if value is not None]
    assert finished == sorted(finished, reverse=True)
    assert finished[0] > finished[-1] == pytest.approx(0.0, abs=1e-12)


def test_gauges_of_games():
    trace = fb.simulate("random", "team-mdp", 40, 0)
    assert np.isnan(trace.bayes_regret[:3]).all()
    assert trace.recent_return[-1] == pytest.approx(trace.reward[-1] / (10 * 2))
    assert np.isnan(fb.simulate("random", "linear", 5, 0).recent_return).all()
