"""Agents with functions of their own: what they are made of, and what contexts tell of them."""

from __future__ import annotations

import numpy as np
import pytest

import fedbandits as fb
from fedbandits.contract.facts import RKHS, AgentFeatures, Norms
from fedbandits.contract.streams import seeds_of
from fedbandits.models.embeddings import discrepancies
from fedbandits.models.kernels import SquaredExponential

SIZES = {"clients": 12, "dim": 5, "arms": 6}
ENVIRONMENTS = (fb.environments.HeterogeneousLinear, fb.environments.HeterogeneousRBF)


def world_of(environment, seed=0):
    return environment.world(50, seeds_of(seed).world)


@pytest.mark.parametrize("kind", ENVIRONMENTS)
def test_contexts_lie_around_the_agents_own_point_and_in_the_unit_ball(kind):
    world = world_of(kind(**SIZES, clusters=3, shift=0.6, told=True))
    arms = np.concatenate([world.turn(step).arms for step in range(50)], axis=1)
    assert np.linalg.norm(arms, axis=2).max() <= world.problem.get(Norms).arms + 1e-12
    middle = world._source.middle
    np.testing.assert_allclose(np.linalg.norm(arms - middle[:, None], axis=2), 0.4)
    np.testing.assert_allclose(arms.mean(axis=1), middle, atol=0.06)


@pytest.mark.parametrize("kind", ENVIRONMENTS)
def test_who_is_like_whom_can_be_told_from_contexts(kind):
    world = world_of(kind(**SIZES, clusters=3))
    labels = np.array(world.truth().clusters)
    arms = np.concatenate([world.turn(step).arms for step in range(30)], axis=1)
    apart = discrepancies(SquaredExponential((0.5,) * 5), list(arms))
    alike = labels[:, None] == labels[None, :]
    assert apart[alike].max() < apart[~alike].min()


def test_linear_agents_of_one_cluster_have_one_parameter():
    world = world_of(fb.environments.HeterogeneousLinear(**SIZES, labels=tuple(v % 3 for v in range(12))))
    np.testing.assert_array_equal(world.theta[:3], world.theta[3:6])
    assert len(np.unique(world.theta, axis=0)) == 3
    turn = world.turn(4)
    outcome = world.pay(4, np.zeros(12, dtype=np.int64))
    means = np.einsum("nd,nkd->nk", world.theta, turn.arms)
    np.testing.assert_allclose(outcome.regrets, means.max(axis=1) - means[:, 0])


def test_without_clusters_parameters_are_as_alike_as_features():
    world = world_of(fb.environments.HeterogeneousLinear(**SIZES, clusters=None, told=True))
    z = np.array(world.problem.get(AgentFeatures).features)
    np.testing.assert_allclose(world.theta @ world.theta.T, z @ z.T, atol=1e-12)


def test_smooth_functions_have_norm_one_in_the_joint_space():
    """F is recovered from what is told: its values are those of a mixture of joint kernels with that norm."""
    environment = fb.environments.HeterogeneousRBF(**SIZES, centres=8, told=True)
    world = world_of(environment)
    function = world._source.function
    z = np.array(world.problem.get(AgentFeatures).features)
    assert world.problem.get(RKHS) == RKHS(0.5, low=-1.0, high=1.0)
    turn = world.turn(2)
    values = np.array([function(np.full(6, v), np.ascontiguousarray(turn.arms[v])) for v in range(12)])
    outcome = world.pay(2, np.ones(12, dtype=np.int64))
    np.testing.assert_allclose(outcome.regrets, values.max(axis=1) - values[:, 1], atol=1e-12)
    # the smallest norm that agrees with so many values cannot be larger than that of F
    who, points = np.repeat(np.arange(12), 6), turn.arms.reshape(-1, 5)
    joint = SquaredExponential((1.0,) * 5).matrix(z[who], z[who]) * SquaredExponential((0.5,) * 5).matrix(
        points, points
    )
    smallest = values.ravel() @ np.linalg.solve(joint + 1e-10 * np.eye(72), values.ravel())
    assert 0.05 < smallest <= 1 + 1e-6


def test_labels_have_to_be_as_many_as_agents():
    with pytest.raises(ValueError, match="labels: 2 are given for clients=12"):
        fb.environments.HeterogeneousLinear(**SIZES, labels=(0, 1))


def test_features_are_a_table():
    assert AgentFeatures.read([[1, 2], [3, 4]]) == AgentFeatures(((1.0, 2.0), (3.0, 4.0)))
    assert AgentFeatures.read({"features": ((1.0,),)}).plain() == {"features": [[1.0]]}
    with pytest.raises(ValueError, match=r"features: every agent needs as many numbers"):
        AgentFeatures(((1.0,), (1.0, 2.0)))
