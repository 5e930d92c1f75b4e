"""Arms that are a hash of (seed, step, agent): the same ones however they are asked for, and those of the setting."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

import fedbandits as fb
from fedbandits.contract.streams import seeds_of
from fedbandits.environments.hashed_arms import HashedArms
from fedbandits.testing import check_environment

SIZES = {"clients": 7, "dim": 6, "arms": 5, "draws": "hash"}
KINDS = [
    fb.environments.Linear(**SIZES),
    fb.environments.Linear(**SIZES, spread="biased"),
    fb.environments.LinearBounded(**SIZES, spread="decaying"),
    fb.environments.LinearShared(**SIZES, shared=2),
    fb.environments.Logistic(**SIZES),
    fb.environments.Probit(**SIZES),
    fb.environments.ClusteredLinear(**SIZES, pool=None, clusters=2),
]


def named(kind):
    return f"{type(kind).__name__}-{kind.spread}"


@pytest.mark.parametrize("schedule", ["all", "random"])
@pytest.mark.parametrize("kind", KINDS, ids=named)
def test_compiled_loops_see_the_arms_that_turns_show(kind, schedule):
    environment = replace(kind, schedule=schedule)
    played, stepped = (fb.Simulation("dislinucb:threshold=0.5", environment, 80, seed=2) for _ in range(2))
    played.compiled, stepped.compiled = True, False
    played.run(33)
    played.run()
    stepped.run()
    assert played.world.block(0).source is not None
    one, other = played.state(), stepped.state()
    assert not [name for name in one if not np.array_equal(one[name], other[name])]


@pytest.mark.parametrize("kind", KINDS, ids=named)
def test_environments_keep_their_promises(kind):
    check_environment(kind)


def test_an_agent_alone_and_a_step_alone_see_what_everybody_sees():
    source, theta = HashedArms(5, 6, "sphere", tuple(np.uint32(k) for k in (1, 2, 3))), np.ones((1, 6))
    everybody = np.tile(np.arange(9), (4, 1))
    lanes, scores = (np.array(part) for part in source.show(10, everybody, theta))
    for step, agent in ((0, 0), (3, 8), (2, 5)):
        alone = source.show(10 + step, np.array([[agent]]), theta)
        np.testing.assert_array_equal(alone[0][0, 0], lanes[step, agent])
        np.testing.assert_array_equal(alone[1][0, 0], scores[step, agent])
    shuffled = source.show(12, np.array([[4, 8, 0]]), theta)[0]
    np.testing.assert_array_equal(shuffled[0], lanes[2, [4, 8, 0]])


def test_instances_differ_by_seed_and_are_the_same_under_one():
    environment = fb.environments.Linear(**SIZES)
    one, again, other = (environment.world(50, seeds_of(seed).world).turn(7).arms for seed in (0, 0, 1))
    np.testing.assert_array_equal(one, again)
    assert not np.isclose(one, other).any()


@pytest.mark.parametrize("spread", ["sphere", "decaying", "biased"])
def test_arms_are_distributed_as_those_that_a_generator_draws(spread):
    """Moments of second and fourth order, the law of a coordinate, and arms, agents, steps have nothing in common."""
    sizes = {"clients": 200, "dim": 4, "arms": 5, "spread": spread}
    found = []
    for draws in ("hash", "sequence"):
        world = fb.environments.Linear(**sizes, draws=draws).world(40, seeds_of(3).world)
        found.append(np.array([world.turn(step).arms for step in range(40)]))
    hashed, drawn = found
    np.testing.assert_allclose(np.linalg.norm(hashed, axis=-1), np.sqrt(2) if spread == "biased" else 1, rtol=1e-14)
    flat, other = hashed.reshape(-1, 4), drawn.reshape(-1, 4)
    for power in (2, 4):
        np.testing.assert_allclose((flat**power).mean(axis=0), (other**power).mean(axis=0), atol=0.012)
    for j in range(3):
        assert stats.ks_2samp(flat[:, j], other[:, j]).pvalue > 1e-3
    centred = hashed[..., :3]  # (steps, agents, arms, d)
    for axis in range(3):
        product = (
            np.take(centred, range(1, centred.shape[axis]), axis)
            * np.take(centred, range(centred.shape[axis] - 1), axis)
        ).reshape(-1, 3)
        assert (np.abs(product.mean(axis=0)) < 4.5 * product.std(axis=0) / np.sqrt(len(product))).all()
    crossed = np.corrcoef(flat[:, :3].T)[np.triu_indices(3, 1)]
    assert np.abs(crossed).max() < 4.5 / np.sqrt(len(flat))


def test_hash_is_refused_where_arms_are_not_fresh():
    with pytest.raises(ValueError, match="draws='hash' is for arms that are fresh"):
        fb.environments.Linear(pool=100, draws="hash")
    with pytest.raises(ValueError, match="draws='hash' is for arms that are fresh"):
        fb.environments.LinearFixed(draws="hash")


def test_stragglers_see_hashed_arms_too():
    environment = fb.environments.Linear(**SIZES, stragglers=0.5, presence=0.5)
    trace = fb.simulate("dislinucb:threshold=0.5", environment, 60)
    assert 0 < trace.decisions[-1] < 60 * 7
