"""Private linear algorithms: what they are composed of, when they call, what they act on, and what that costs."""

from __future__ import annotations

import math
import pickle
from typing import Any

import numpy as np
import pytest

import fedbandits as fb
from fedbandits.algorithms import FedLinUCBPrivate, IndependentLinUCB, LDPLinUCB, PrivateLinUCB
from fedbandits.algorithms.private.pooled import Pooled
from fedbandits.channel.composition import laid_open
from fedbandits.channel.gaussian import Gaussian
from fedbandits.contract.algorithm import Algorithm, bounds_of
from fedbandits.contract.facts import Perturbation
from fedbandits.contract.problem import Problem
from fedbandits.models.noisy_sums import Regularised
from fedbandits.simulation.arguments import algorithm_of
from fedbandits.simulation.loop import posed
from fedbandits.testing import check_algorithm, checks_of
from fedbandits.testing.recording import Event, recorded

N, DIM, ARMS, HORIZON = 4, 3, 5, 40


def gap(n: int = N, **parameters: Any) -> fb.environments.Gap:
    return fb.environments.Gap(clients=n, dim=DIM, arms=ARMS, **parameters)


def events(algorithm: Algorithm, horizon: int = HORIZON, **parameters: Any) -> list[Event]:
    return list(recorded(algorithm, gap(**parameters), horizon))


def problem_of(algorithm: Algorithm, horizon: int = HORIZON, n: int = N) -> Problem:
    return posed(gap(n).world(horizon, np.random.SeedSequence(0)), algorithm, None)


# consistency checks of the text


def test_without_noise_and_in_every_round_everybody_has_the_pooled_gram_matrix():
    algorithm = FedLinUCBPrivate(epsilon=None, threshold="every-round", ridge=0.7)
    gram = 0.7 * np.eye(DIM)
    for event in recorded(algorithm, gap(), HORIZON):
        chosen = event.arms[np.arange(len(event.who)), event.picks]
        gram = gram + chosen.T @ chosen
        _, matrices, _ = event.side.agents.ellipsoids()
        np.testing.assert_allclose(matrices, np.broadcast_to(gram, matrices.shape), rtol=1e-12)


def test_with_an_infinite_threshold_agents_are_on_their_own():
    mute = fb.simulate(FedLinUCBPrivate(epsilon=None, threshold=math.inf, width=0.2), gap(), 200, seed=3)
    alone = fb.simulate(IndependentLinUCB(width=0.2), gap(), 200, seed=3)
    np.testing.assert_array_equal(mute.regret, alone.regret)
    assert mute.messages[-1] == 0


@pytest.mark.parametrize("own", ["released", "recent"])
@pytest.mark.parametrize("constants", ["exact", "thesis"])
def test_after_a_synchronisation_everybody_knows_the_same_to_the_last_bit(own, constants):
    algorithm = FedLinUCBPrivate(own=own, constants=constants)
    seen = 0
    for event in recorded(algorithm, gap(), HORIZON):
        theta, matrices, _ = event.side.agents.ellipsoids()
        np.linalg.cholesky(matrices)
        if event.crossed:
            seen += 1
            assert (theta == theta[0]).all()
            assert (matrices == matrices[0]).all()
            inner = event.side.agents.inner
            assert not inner.models.fresh.gram.any()
    assert seen >= 5


def test_fused_agents_keep_their_own_data_beside_the_pool():
    """What an agent believes after an upload differs from what the others do by exactly what is its own."""
    last = events(FedLinUCBPrivate(own="fused"))[-1]
    _, matrices, _ = last.side.agents.ellipsoids()
    assert not np.allclose(matrices[0], matrices[1])


# the thesis' trigger


def triggered(algorithm: FedLinUCBPrivate, horizon: int = HORIZON) -> int:
    """Check every call against the text, with determinants of whole matrices; returns how many there were."""
    inner = laid_open(algorithm)[0]
    assert isinstance(inner, Pooled)
    told = problem_of(algorithm, horizon)
    if algorithm.epsilon is not None:
        (stage,) = laid_open(algorithm)[1]
        told = stage.poses(told)
    low, high = inner.regularisers(told)
    many = N if high > low else 1
    known = np.tile(many * low * np.eye(DIM), (N, 1, 1))
    if high > low:
        known += algorithm.ridge * np.eye(DIM)  # which lies on everything
    own, since, calls = np.zeros((N, DIM, DIM)), 0, 0
    for event in recorded(algorithm, gap(), horizon):
        chosen = event.arms[np.arange(N), event.picks]
        own += chosen[:, :, None] * chosen[:, None, :]
        since += 1
        slack = N * (high - low) * np.eye(DIM)
        grown = np.linalg.slogdet(known + own + slack)[1] - np.linalg.slogdet(known)[1]
        np.testing.assert_array_equal(event.calling, since * grown >= inner.level(told))
        if event.crossed:
            agents = event.side.agents
            held = agents.inner.models if algorithm.epsilon is not None else agents.models
            known = held.base.gram + algorithm.ridge * np.eye(DIM)
            own, since, calls = np.zeros_like(own), 0, calls + 1
    return calls


@pytest.mark.parametrize("threshold", [0.5, "balanced", "table-a", "table-b"])
def test_without_noise_agents_call_by_the_trigger_of_the_text(threshold):
    assert triggered(FedLinUCBPrivate(epsilon=None, threshold=threshold)) >= 3


def test_with_printed_constants_the_trigger_knows_the_regularisers():
    """With rho_max - rho_min = 2 Lambda the determinant has grown by 3^d before anything is observed."""
    algorithm = FedLinUCBPrivate(threshold=20.0, leaky=True, constants="thesis", own="recent")
    assert triggered(algorithm) >= 3


def test_presets_are_those_of_the_text():
    problem = Problem(agents=100, dim=10, arms=20, horizon=10_000_000)
    phi = math.log(1 + 10_000_000 / 10)

    def level(name: str) -> float:
        return Pooled(threshold=name).level(problem)

    assert level("every-round") == 0
    assert level("theorem") == pytest.approx(2 * 1e7 * 10 / (phi + 1))
    assert level("balanced") == pytest.approx(2 * 1e7 / (100 * 10 * phi))
    assert level("table-a") == pytest.approx(1e7 / (10 * 100**2 * math.log(1e9)))
    assert level("table-b") == pytest.approx(1e7 * math.log(1e9) / (10 * 100**2))


def test_a_trigger_that_tells_of_data_is_refused_or_costs_everything():
    for threshold in (2.0, "balanced", "table-a", "table-b", "theorem"):
        with pytest.raises(fb.ConfigError, match=r"threshold: when agents call .* or say leaky=true"):
            FedLinUCBPrivate(threshold=threshold)
    leaky = FedLinUCBPrivate(threshold=0.5, leaky=True)
    assert leaky.about.calls == "data"
    assert "no privacy" in leaky.about.guarantee
    trace = fb.simulate(leaky, gap(), HORIZON)
    assert trace.privacy is not None
    assert np.isinf(trace.privacy.epsilon).all()


def test_every_round_is_a_schedule():
    algorithm = FedLinUCBPrivate(threshold="every-round")
    assert algorithm.about.calls == "scheduled"
    trace = fb.simulate(algorithm, gap(), HORIZON)
    assert trace.syncs[-1] == HORIZON
    assert trace.privacy is not None
    np.testing.assert_allclose(trace.privacy.epsilon, 1.0, rtol=1e-9)


# schedules and twins


def test_the_twin_calls_when_the_private_one_does():
    private, twin = (
        [event.calling for event in recorded(FedLinUCBPrivate(epsilon=epsilon), gap(), HORIZON)]
        for epsilon in (1.0, None)
    )
    np.testing.assert_array_equal(private, twin)
    assert np.any(private, axis=1).sum() >= 5


def test_twins_protect_nothing_and_say_so():
    for kind in (FedLinUCBPrivate, PrivateLinUCB, LDPLinUCB):
        twin = kind(epsilon=None)
        assert kind.about.private
        assert not twin.about.private
        assert kind(epsilon="none") == twin  # as files say it
        assert fb.simulate(twin, gap(), HORIZON).privacy is None


@pytest.mark.parametrize("kind", [PrivateLinUCB, LDPLinUCB])
def test_twins_on_their_own_are_linucb(kind):
    twin = fb.simulate(kind(epsilon=None, width=0.2), gap(), 100, seed=2)
    np.testing.assert_array_equal(twin.regret, fb.simulate(IndependentLinUCB(width=0.2), gap(), 100, seed=2).regret)


def test_a_schedule_survives_absences():
    """Whoever was away calls with its first turn after the scheduled one that it missed."""
    algorithm = FedLinUCBPrivate(epsilon=None, every=5)
    told = np.zeros(N, dtype=np.int64)
    turns = np.zeros(N, dtype=np.int64)
    for event in recorded(algorithm, gap(schedule="random"), 60):
        turns[event.who] += 1
        np.testing.assert_array_equal(event.calling, turns // 5 > told // 5)
        if event.crossed:
            told = turns.copy()  # everybody hands over what there is


# alone


def test_alone_is_a_federation_of_one():
    """One agent has the same run whether a server or it itself adds up its releases."""
    for options in ({}, {"mechanism": "tree", "every": 4}, {"uploads": 3}):
        single = fb.simulate(PrivateLinUCB(**options), gap(1), HORIZON, seed=4)
        star = fb.simulate(FedLinUCBPrivate(**options), gap(1), HORIZON, seed=4)
        np.testing.assert_array_equal(single.regret, star.regret)
        assert single.messages[-1] == 0 < star.messages[-1]


@pytest.mark.parametrize("algorithm", [PrivateLinUCB(), LDPLinUCB()])
def test_lone_agents_learn_from_nobody_else(algorithm):
    """Other rewards of agent 0 change nothing about the others."""

    def flipped(step, rewards):
        return np.concatenate([1 - rewards[:1], rewards[1:]])

    plain, other = events(algorithm), list(recorded(algorithm, gap(), HORIZON, told=flipped))
    moved = np.array([one.picks != two.picks for one, two in zip(plain, other, strict=True)])
    assert moved[:, 0].any()
    assert not moved[:, 1:].any()


def test_local_noise_lies_on_every_observation():
    """The releases differ from the sums by noise that has been drawn anew in every turn."""
    agents = events(LDPLinUCB(), horizon=200)[-1].side.agents
    clean = agents.inner.ends.stage0.own.of("fresh", "moment")
    noise = agents.pool.moment - clean
    stage = laid_open(LDPLinUCB().composed)[1][0]
    assert isinstance(stage, Gaussian)
    expected = stage.noise(problem_of(LDPLinUCB(), 200, n=1)) * math.sqrt(200)
    assert 0.6 < noise.std() / expected < 1.5
    assert (agents.inner.ends.stage0.steps.made == 200).all()


def test_what_alone_agents_spend():
    for algorithm in (PrivateLinUCB(epsilon=0.7), LDPLinUCB(epsilon=0.7)):
        spent = fb.simulate(algorithm, gap(), HORIZON).privacy
        assert spent is not None
        np.testing.assert_allclose(spent.epsilon, 0.7, rtol=1e-9)


# the contract, for what defaults do not show

_NOISE = {"additive": "every release has noise of its own", "never asked": "what was released stays released"}
_AGAIN = "whoever is asked again releases again"
_FRAMED = _NOISE | {"meanwhile": "what is held was cut down to the frame before, which then stays"}
_ASKED = _NOISE | {"adds": _AGAIN, "returned": _AGAIN}
WAITS = ("two worlds", "resumable", "returned", "never asked", "urgency", "meanwhile")


@pytest.mark.parametrize("check", WAITS)
def test_the_twin_keeps_its_promises(check):
    (one,) = (item for item in checks_of(FedLinUCBPrivate(epsilon=None), gap(6)) if item.name == check)
    one()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("algorithm", "excused"),
    [
        (FedLinUCBPrivate(epsilon=None), {}),
        (FedLinUCBPrivate(epsilon=None, threshold=0.5), {}),
        (FedLinUCBPrivate(own="fused"), _NOISE),
        (FedLinUCBPrivate(clip="learned", every=5), _FRAMED),
        (FedLinUCBPrivate(clip="learned", own="fused", every=5), _FRAMED),
        (FedLinUCBPrivate(own="recent", constants="thesis"), _NOISE),
        (FedLinUCBPrivate(own="recent", threshold=2.0, leaky=True), _ASKED),
        (FedLinUCBPrivate(threshold="every-round", mechanism="tree", unit="agent"), _NOISE),
        (PrivateLinUCB(every=1, mechanism="tree"), {}),
        (PrivateLinUCB(epsilon=None), {}),
    ],
)
def test_all_variants_keep_their_promises(algorithm, excused):
    check_algorithm(algorithm, gap(6), excused=excused)


# values


def test_words_of_a_command_line():
    assert algorithm_of("fedlinucb-private:epsilon=2,own=fused") == FedLinUCBPrivate(epsilon=2.0, own="fused")
    assert algorithm_of("private-linucb:epsilon=none,uploads=4") == PrivateLinUCB(epsilon=None, uploads=4)
    assert algorithm_of("fedlinucb-private|quantise:bits=16").about.name == "fedlinucb-private|quantise"


@pytest.mark.parametrize(
    "algorithm", [FedLinUCBPrivate(own="fused", epsilon=2), PrivateLinUCB(uploads=4), LDPLinUCB(epsilon=3)]
)
def test_they_are_values(algorithm):
    again = pickle.loads(pickle.dumps(algorithm))
    assert again == algorithm
    assert again.about == algorithm.about
    assert f"({algorithm.epsilon:g}, 1e-05)" in algorithm.about.guarantee


@pytest.mark.parametrize(
    ("parameters", "complaint"),
    [
        ({"threshold": 2.0, "every": 3}, "threshold and every both say when"),
        ({"constants": "thesis", "mechanism": "toeplitz"}, "mechanism=tree"),
        ({"epsilon": 0}, "epsilon: must be greater than 0"),
        ({"own": "clean"}, "own: must be 'released', 'fused' or 'recent'"),
    ],
)
def test_what_cannot_be_is_refused(parameters, complaint):
    with pytest.raises(fb.ConfigError, match=f"fedlinucb-private: .*{complaint}"):
        FedLinUCBPrivate(**parameters)


def test_rewards_of_any_size_have_no_sensitivity():
    with pytest.raises(fb.ConfigError, match="range"):
        fb.simulate(FedLinUCBPrivate(), fb.environments.Linear(clients=3, dim=3, arms=4), 40)
    fb.simulate(FedLinUCBPrivate(rewards=1.0), fb.environments.Linear(clients=3, dim=3, arms=4), 40)


def test_strict_agents_cost_the_budget_and_others_everything():
    for own, expected in (("released", 1.0), ("fused", math.inf), ("recent", math.inf)):
        spent = fb.simulate(FedLinUCBPrivate(own=own), gap(), HORIZON).privacy
        assert spent is not None
        np.testing.assert_allclose(spent.epsilon, expected, rtol=1e-9)


def test_printed_constants_are_the_thesis():
    """Lambda = sqrt(32) m (L^2 + 1) log(4/delta) (4 sqrt(d) + 2 log(2 n M/alpha)) / epsilon, m = 1 + ceil(log2 n)."""
    algorithm = FedLinUCBPrivate(constants="thesis", epsilon=0.5, delta=0.1)
    (stage,) = laid_open(algorithm)[1]
    problem = stage.poses(problem_of(algorithm, horizon=3000))
    told = problem.get(Perturbation)
    assert told is not None
    assert told.releases == 8
    bound = Regularised(DIM, told, 0.5, 1.0).bound()
    text = math.sqrt(32) * 4 * 2 * math.log(40) * (4 * math.sqrt(DIM) + 2 * math.log(2 * 8 * N / 0.1)) / 0.5
    assert bound == pytest.approx(text)


# theory


def test_lower_bounds_are_those_of_the_theorems():
    problem = Problem(agents=20, dim=10, arms=30, horizon=5000)
    for epsilon in (0.1, 0.5, 2.0):
        together = bounds_of(FedLinUCBPrivate(epsilon=epsilon), problem, None)
        assert together is not None
        assert together.lower**2 * epsilon * (math.exp(2 * epsilon) - 1) == pytest.approx(10 * 20 * 5000)
        for lone in (PrivateLinUCB(epsilon=epsilon), LDPLinUCB(epsilon=epsilon)):
            apart = bounds_of(lone, problem, None)
            assert apart is not None
            assert (apart.lower / 20) ** 2 * 2 * epsilon * (math.exp(2 * epsilon) - 1) == pytest.approx(29 * 5000)
    assert bounds_of(FedLinUCBPrivate(epsilon=None), problem, None) is None
    trace = fb.simulate(FedLinUCBPrivate(), gap(), HORIZON, theory=True)
    assert trace.bounds["lower"] == pytest.approx(math.sqrt(DIM * N * HORIZON / (math.exp(2) - 1)))
