"""Ascent of an index: its gradients are those of differences, nobody ends lower, and an agent climbs alone as among
others.
"""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import minimize

import fedbandits as fb
from fedbandits.algorithms import NGOUCB
from fedbandits.contract.room import Room
from fedbandits.environments import Cosine8, Hartmann6
from fedbandits.linalg.leaning import leaning
from fedbandits.models.climbing import Climbing, climbed
from fedbandits.models.differences import differenced
from fedbandits.models.differentiable import Hill, Model, Rectifier, Sigmoid, Waves
from fedbandits.models.features import Identity
from fedbandits.models.features.random_fourier import RandomFourierFeatures
from fedbandits.models.kernels import SquaredExponential
from fedbandits.simulation.loop import Simulation

WHO = np.array([0, 2])


class Bump(Model):
    """A function of one's own, whose gradient in x nobody has written down."""

    def parameters(self, dim):
        return dim + 1

    def values(self, w, x):
        return w[-1] * np.exp(-((x - w[:-1]) ** 2).sum(axis=1))

    def gradients(self, w, x):
        heights = np.exp(-((x - w[:-1]) ** 2).sum(axis=1))
        return np.column_stack([2 * w[-1] * heights[:, None] * (x - w[:-1]), heights])


@pytest.mark.parametrize(
    "model",
    [Sigmoid(width=4), Waves(width=3), Hill(), Bump(), Rectifier(width=5, layers=2)],
    ids=lambda m: type(m).__name__,
)
def test_the_gradient_in_x_is_that_of_differences(model):
    rng = np.random.default_rng(0)
    d, p = 3, model.parameters(3)
    theta, arms, along = rng.normal(size=(3, p)), rng.normal(size=(2, 5, d)), rng.normal(size=(2, 5, p))
    found = model.inclines(theta, WHO, arms, along, np.full(d, 1e-5))
    for row, agent in enumerate(WHO):
        for k in range(5):

            def value(x, w=theta[agent], u=along[row, k]):
                return float(model.values(w, x[None])[0] + model.gradients(w, x[None])[0] @ u)

            steps = 1e-6 * np.eye(d)
            wanted = [(value(arms[row, k] + step) - value(arms[row, k] - step)) / 2e-6 for step in steps]
            np.testing.assert_allclose(found[row, k], wanted, rtol=1e-5, atol=1e-6)
        alone = model.inclines(
            theta[agent : agent + 1], WHO[:1], arms[row : row + 1], along[row : row + 1], np.full(d, 1e-5)
        )
        np.testing.assert_array_equal(alone[0], found[row])


@pytest.mark.parametrize("kind", ["waves", "identity"])
def test_slopes_of_features_are_those_of_differences(kind):
    rng = np.random.default_rng(1)
    features = Identity(3) if kind == "identity" else RandomFourierFeatures(SquaredExponential((0.7,) * 3), 20, rng)
    arms, along = rng.normal(size=(2, 4, 3)), rng.normal(size=(2, 4, features.size))

    def projected(near):
        return np.einsum("wkp,wkp->wk", features.of(WHO, near), np.repeat(along, near.shape[1] // 4, axis=1))

    wanted = differenced(projected, arms, np.full(3, 1e-6))[1]
    np.testing.assert_allclose(features.slopes(WHO, arms, along, np.full(3, 1e-6)), wanted, rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("d", [1, 3, 4, 9, 40])
def test_leaning_is_the_best_of_an_ellipsoid(d):
    rng = np.random.default_rng(d)
    half = rng.normal(size=(3, d, d))
    inverse = half @ half.transpose(0, 2, 1) + np.eye(d)
    theta, width, arms = rng.normal(size=(3, d)), np.array([0.5, 2.0]), rng.normal(size=(2, 4, d))
    arms[1, 3] = 0.0
    values, along = leaning(inverse, theta, width, WHO, arms)
    for row, agent in enumerate(WHO):
        reach = np.sqrt(np.einsum("kd,de,ke->k", arms[row], inverse[agent], arms[row]))
        np.testing.assert_allclose(values[row], arms[row] @ theta[agent] + width[row] * reach, rtol=1e-11)
        np.testing.assert_allclose((arms[row] * along[row]).sum(axis=1), values[row], rtol=1e-11, atol=1e-12)
        inside = np.einsum(
            "kd,de,ke->k", along[row] - theta[agent], np.linalg.inv(inverse[agent]), along[row] - theta[agent]
        )
        np.testing.assert_allclose(inside, np.where(reach > 0, width[row] ** 2, 0.0), rtol=1e-8, atol=1e-12)
    with pytest.raises(ValueError, match="dimension"):
        leaning(inverse, theta, width, WHO, rng.normal(size=(2, 4, d + 1)))
    with pytest.raises(IndexError):
        leaning(inverse, theta, width, np.array([0, 3]), arms)


def test_ascent_reaches_the_top_and_stays_in_the_box():
    low, high, top = np.array([-1.0, 0.0, 1.0]), np.array([1.0, 3.0, 1.0]), np.array([0.3, 5.0, 1.0])
    room = Room(low, high, 2)
    rates = np.array([4.0, 1.0, 1.0])

    def bowl(points):
        return -(rates * (points - top) ** 2).sum(axis=2), -2 * rates * (points - top)

    starts = low + (high - low) * np.random.default_rng(0).random((4, 2, 3))
    found = climbed(bowl, starts, room, 60)
    assert ((found >= low) & (found <= high)).all()
    np.testing.assert_allclose(found, np.broadcast_to([0.3, 3.0, 1.0], found.shape), atol=1e-3)
    for row in range(4):
        np.testing.assert_array_equal(climbed(bowl, starts[row : row + 1], room, 60)[0], found[row])


def _agents(algorithm, environment, steps) -> tuple[Climbing, Room, np.ndarray]:
    run = Simulation(algorithm, environment, 60, 0)
    run.run(steps)
    turn = run.world.turn(steps)
    return run.agents, turn.room, turn.arms


PROPOSERS = {
    "fed-go-ucb": "fed-go-ucb:width=4,rounds=20,explore=12,keep=true",
    "centre": "fed-go-ucb:width=4,rounds=20,explore=12,inner=centre",
    "one-step": "n-go-ucb:width=3,rounds=20,explore=3,inner=one-step",
    "refined": "n-go-ucb:width=3,rounds=20,explore=3,inner=refined",
    "rectifier": "n-go-ucb:width=3,layers=2,rounds=20,explore=3,model=rectifier",
    "dislinucb": "dislinucb",
    "kernel": "approx-dis-kernel-ucb:lengthscale=0.5,ridge=0.1,threshold=1",
    "features": "dis-kernel-features:lengthscale=0.5,threshold=1",
    "exact": "kernel-ucb",
    "neural-linear": "neural-linear:explore=ucb",
    "neural-ucb": "neural-ucb",
}


@pytest.mark.parametrize("name", PROPOSERS)
def test_proposals_have_an_index_no_lower_than_that_of_the_best_arms_shown(name):
    environment = Hartmann6(clients=3, arms=12, shown="proposed", constant=name == "dislinucb")
    agents, room, arms = _agents(PROPOSERS[name], environment, 9)
    who = np.arange(3)
    before = agents.state()
    proposed = agents.propose(who, arms, room)
    for key, array in agents.state().items():
        np.testing.assert_array_equal(array, before[key])
    assert proposed.shape == (3, room.slots, arms.shape[2])
    assert ((proposed >= room.low) & (proposed <= room.high)).all()
    starts = np.sort(agents.scores(who, arms), axis=1)[:, ::-1][:, : room.slots]
    reached = agents.scores(who, proposed)
    assert (reached >= starts - 1e-9 * np.abs(starts)).all()
    assert (reached > starts + 1e-6).any()


def test_the_slope_of_the_index_is_that_of_its_differences():
    for text in ("fed-go-ucb", "centre", "dislinucb", "features"):
        environment = Cosine8(clients=3, arms=12, shown="proposed")
        agents, _, arms = _agents(PROPOSERS[text], environment, 12)
        second = getattr(agents, "second", agents)
        who, points = np.arange(3), np.ascontiguousarray(arms[:, :4])
        values, slopes = second.steep(who, points, np.full(8, 1e-5))
        wanted, differences = Climbing.steep(second, who, points, np.full(8, 1e-5))
        np.testing.assert_allclose(values, wanted, rtol=1e-9)
        np.testing.assert_allclose(slopes, differences, rtol=1e-4, atol=1e-5)


def test_ascent_comes_as_high_as_a_well_known_optimiser_does_from_the_same_point():
    agents, room, arms = _agents(PROPOSERS["fed-go-ucb"], Hartmann6(clients=3, arms=33, shown="proposed"), 20)
    who = np.arange(3)
    scores = agents.scores(who, arms)
    reached = agents.scores(who, agents.propose(who, arms, room)).max(axis=1)
    bounds = list(zip(room.low, room.high, strict=True))
    for i in range(3):
        begun = arms[i, scores[i].argmax()]
        best = -minimize(lambda x, i=i: -agents.scores(np.array([i]), x[None, None])[0, 0], begun, bounds=bounds).fun
        assert reached[i] - scores[i].max() >= 0.9 * (best - scores[i].max())


def test_those_who_draw_propose_nothing():
    for algorithm in ("random", "independent-lints"):
        agents, room, arms = _agents(algorithm, Hartmann6(clients=3, arms=12, shown="proposed"), 3)
        assert agents.propose(np.arange(3), arms, room) is None
    assert fb.simulate("independent-lints", Hartmann6(clients=3, arms=12, shown="proposed"), 10, 0).regret[-1] > 0


def test_nobody_proposes_in_the_first_phase():
    agents, room, arms = _agents(
        NGOUCB(width=3, rounds=5, explore=4), Hartmann6(clients=3, arms=12, shown="proposed"), 2
    )
    assert agents.propose(np.arange(3), arms, room) is None
    agents.begin(np.array([1]), np.random.default_rng(0).normal(size=(1, NGOUCB(width=3).size(_problem()))))
    found = agents.propose(np.arange(3), arms, room)
    np.testing.assert_array_equal(found[[0, 2]], arms[[0, 2], -room.slots :])
    np.testing.assert_array_equal(found[1], agents.propose(np.array([1]), arms[1:2], room)[0])
    assert not np.array_equal(found[1], arms[1, -room.slots :])


def _problem():
    return Hartmann6(clients=3, arms=12, shown="proposed").world(5, np.random.SeedSequence(0)).problem


def test_agents_who_act_on_releases_alone_propose_by_them():
    text = "dislinucb:every=3|gaussian:epsilon=1,delta=0.1,rewards=4"
    agents, room, arms = _agents(text, Cosine8(clients=3, arms=12, shown="proposed", constant=True), 1)
    np.testing.assert_array_equal(agents.propose(np.arange(3), arms, room), arms[:, -room.slots :])
    later, room, arms = _agents(text, Cosine8(clients=3, arms=12, shown="proposed", constant=True), 8)
    np.testing.assert_array_equal(
        later.propose(np.arange(3), arms, room), later.acting.propose(np.arange(3), arms, room)
    )
