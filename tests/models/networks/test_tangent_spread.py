"""Tangents that are never written down, against those that are."""

from __future__ import annotations

import numpy as np
import pytest

import fedbandits as fb
from fedbandits.algorithms.neural.neural_ucb import NeuralTS, NeuralUCB
from fedbandits.contract.problem import Problem
from fedbandits.contract.streams import Streams
from fedbandits.environments import Cosine
from fedbandits.models.features.tangent import TangentFeatures
from fedbandits.models.networks import Architecture, gaussian
from fedbandits.models.networks.tangent_spread import TangentSpread
from fedbandits.models.ridge import RidgeModels
from fedbandits.models.spreads import Spreads
from fedbandits.testing import check_algorithm


@pytest.mark.parametrize("biased", [True, False])
def test_lengths_are_those_in_the_space_of_features(biased):
    """With room for 32, 70 observations grow it twice; agents have seen more or less."""
    network = Architecture(3, (5,), biased=biased, scale=1.7)
    rng = np.random.default_rng(0)
    theta = gaussian(network, rng, (1.0, 1.0))
    spread = TangentSpread(3, network, theta, ridge=0.2, divisor=1.3)
    features, models = TangentFeatures(network, theta, 1.3), RidgeModels(3, network.parameters, 0.2)
    alone = TangentSpread(1, network, theta, ridge=0.2, divisor=1.3)
    who, zero = np.arange(3), np.array([0])
    for turn in range(70):
        some = who[: 1 + turn % 3]
        x = rng.standard_normal((len(some), 3))
        spread.learn(some, x)
        alone.learn(zero, x[:1])
        models.learn_chosen(some, features.of(some, x[:, None])[:, 0], np.zeros(len(some)))
        if turn % 10 == 9:
            arms = rng.standard_normal((3, 4, 3))
            found, phi = spread.lengths(who, arms), features.of(who, arms)
            wanted = np.sqrt(np.einsum("nkp,npq,nkq->nk", phi, models.inverse, phi))
            np.testing.assert_allclose(found, wanted, rtol=1e-7, atol=1e-9)
            np.testing.assert_array_equal(found[:1], alone.lengths(zero, arms[:1]))


def test_decisions_are_the_same_in_both_spaces():
    """A horizon of half as many turns as parameters, 73, is what decides; the index is the same."""
    rng, who = np.random.default_rng(1), np.arange(2)
    algorithm = NeuralUCB(width=12, steps=3, tangent="beginning")
    short, long = (
        algorithm.agents(Problem(agents=2, dim=4, arms=5, horizon=T), 2, Streams(np.random.SeedSequence(1), 2))
        for T in (36, 37)
    )
    assert isinstance(short.spread, TangentSpread)
    assert isinstance(long.spread, Spreads)
    for _ in range(36):
        arms, rewards = rng.standard_normal((2, 5, 4)), rng.standard_normal(2)
        np.testing.assert_allclose(short.scores(who, arms), long.scores(who, arms), rtol=1e-8, atol=1e-9)
        picks = short.choose(who, arms)
        np.testing.assert_array_equal(picks, long.choose(who, arms))
        for agents in (short, long):
            agents.learn(who, arms, picks, rewards)


def test_it_is_another_algorithm_than_with_tangents_of_the_moment():
    regret = [
        fb.simulate(NeuralUCB(width=8, tangent=t), Cosine(clients=1), 60).regret[-1] for t in ("now", "beginning")
    ]
    assert regret[0] != regret[1]


@pytest.mark.parametrize("kind", [NeuralUCB, NeuralTS])
def test_it_keeps_the_promises(kind):
    check_algorithm(kind(width=6, steps=3, tangent="beginning"), Cosine(clients=3, dim=4, arms=5), horizon=14)


def test_two_hidden_layers_do_not_factorise():
    network = Architecture(3, (5, 5))
    with pytest.raises(ValueError, match="one hidden layer, not for 2"):
        TangentSpread(1, network, np.zeros(network.parameters), ridge=1.0, divisor=1.0)
