"""Fed-GO-UCB: against matrices written from the text, agent by agent and decision by decision; what it costs."""

from __future__ import annotations

import math

import numpy as np
import pytest

import fedbandits as fb
from fedbandits.algorithms import NGOUCB, FedGOUCB, FedGOUCBEnsemble, OneGOUCB
from fedbandits.contract.errors import ConfigError
from fedbandits.contract.facts import Candidates
from fedbandits.contract.streams import seeds_of
from fedbandits.environments import Cosine, Cosine8, Hartmann6
from fedbandits.models.differentiable import Model, Sigmoid
from fedbandits.simulation.loop import Simulation

SMALL = {"width": 4, "rounds": 30, "explore": 7}
ENVIRONMENT = Hartmann6(clients=4, arms=12, schedule="round-robin")


class Exponential(Model):
    """exp(<w, x>): one of a user's own, found by its address."""

    def parameters(self, dim):
        """See `Model`."""
        return dim

    def values(self, w, x):
        """See `Model`."""
        return np.exp(x @ w)

    def gradients(self, w, x):
        """See `Model`."""
        return np.exp(x @ w)[:, None] * x


class Affine(Model):
    """<w, (x, 1)>: linear in its parameters."""

    def parameters(self, dim):
        """See `Model`."""
        return dim + 1

    def values(self, w, x):
        """See `Model`."""
        return x @ w[:-1] + w[-1]

    def gradients(self, w, x):
        """See `Model`."""
        return np.concatenate([x, np.ones((len(x), 1))], axis=1)


def as_printed(picks, rewards, points, w0, begun, n, *, ridge, beta, gamma):
    """Algorithm 1 of the publication with matrices of the model's size: what client i should choose in each turn of
    phase II, given what was chosen and observed; and how often everybody synchronises.
    """
    model, p = Sigmoid(width=4), len(w0)
    f, g = model.values(w0, points), model.gradients(w0, points)
    Sigma, b = [ridge * np.eye(p) for _ in range(n)], [np.zeros(p) for _ in range(n)]
    dSigma, db, own = [np.zeros((p, p)) for _ in range(n)], [np.zeros(p) for _ in range(n)], [0] * n
    Sigma_g, b_g = ridge * np.eye(p), np.zeros(p)
    indices, syncs, worst = [], 0, 0.0
    for t in range(begun, len(picks)):
        i = t % n
        w = np.linalg.solve(Sigma[i], b[i] + ridge * w0)
        widths = np.sqrt(beta * np.einsum("kp,pk->k", g, np.linalg.solve(Sigma[i], g.T)))
        indices.append(f + g @ (w - w0) + widths)
        x, y = picks[t], rewards[t]
        v = g[x] * (g[x] @ w0 + y - f[x])
        Sigma[i], b[i] = Sigma[i] + np.outer(g[x], g[x]), b[i] + v
        dSigma[i], db[i], own[i] = dSigma[i] + np.outer(g[x], g[x]), db[i] + v, own[i] + 1
        after = np.linalg.solve(Sigma[i], b[i] + ridge * w0)
        r = b[i] - (Sigma[i] - ridge * np.eye(p)) @ w0
        worst = max(worst, np.abs(after - w0 - np.linalg.solve(Sigma[i], r)).max())
        grown = np.linalg.slogdet(Sigma[i])[1] - np.linalg.slogdet(Sigma[i] - dSigma[i])[1]
        if own[i] * grown > gamma:
            Sigma_g, b_g, syncs = Sigma_g + sum(dSigma), b_g + sum(db), syncs + 1
            Sigma, b, own = [Sigma_g.copy() for _ in range(n)], [b_g.copy() for _ in range(n)], [0] * n
            dSigma, db = [np.zeros((p, p)) for _ in range(n)], [np.zeros(p) for _ in range(n)]
    assert worst < 1e-10, "the identity w = w_0 + Sigma^-1 sum g (y - f)"
    return np.array(indices), syncs


def played(algorithm, environment=ENVIRONMENT, horizon=80, seed=3):
    """What was chosen and observed, one decision after the other, the run, and its candidates."""
    run = Simulation(algorithm, environment, horizon, seed)
    picks, rewards = [], []
    learn = run.agents.learn

    def noted(who, arms, chosen, paid):
        picks.extend(chosen.tolist())
        rewards.extend(paid.tolist())
        learn(who, arms, chosen, paid)

    run.agents.learn = noted
    run.run()
    return picks, rewards, run, run.world.problem.get(Candidates).table()


@pytest.mark.parametrize("gamma", [0.3, 2.0])
@pytest.mark.parametrize("messages", ["statistics", "candidates"])
def test_decisions_are_those_of_the_text(gamma, messages):
    algorithm = FedGOUCB(**SMALL, threshold=gamma, messages=messages)
    picks, rewards, run, points = played(algorithm)
    w0 = run.server.w
    indices, syncs = as_printed(picks, rewards, points, w0, 7, 4, ridge=1.0, beta=2.0, gamma=gamma)
    chosen = np.array(picks[7:])
    best = indices.max(axis=1)
    np.testing.assert_allclose(indices[np.arange(len(chosen)), chosen], best, rtol=0, atol=1e-10)
    assert run.ledger.syncs == syncs + 1
    assert syncs > 2


def test_both_ways_to_tell_come_to_the_same_choices():
    one, two = (played(FedGOUCB(**SMALL, messages=messages, keep=True)) for messages in ("statistics", "candidates"))
    assert one[0] == two[0]
    np.testing.assert_allclose(one[2].server.w, two[2].server.w, atol=1e-10)


@pytest.mark.parametrize("keep", [False, True])
def test_beliefs_about_candidates_are_dense_algebra(keep, monkeypatch):
    algorithm = FedGOUCB(**SMALL, threshold=0.5, keep=keep)
    fast = played(algorithm)
    monkeypatch.setattr(FedGOUCB, "common", lambda self, problem: None)
    dense = played(algorithm)
    assert fast[0] == dense[0]
    who, points = np.arange(4), np.repeat(fast[3][None], 4, axis=0)
    np.testing.assert_allclose(
        fast[2].agents.scores(who, points), dense[2].agents.scores(who, points), rtol=0, atol=1e-10
    )
    np.testing.assert_allclose(fast[2].server.pool.gram, dense[2].server.pool.gram, atol=1e-10)


def test_what_it_costs():
    n, p, rounds, horizon = 4, 4 * 8 + 1, 30, 80
    trace = fb.simulate(FedGOUCB(**SMALL), ENVIRONMENT, horizon, 3)
    synchronisations = trace.syncs[-1] - 1
    assert trace.first_scalars[-1] == 2 * rounds * n * p
    assert trace.scalars[-1] == 2 * rounds * n * p + synchronisations * 2 * n * (p**2 + p)
    assert trace.first_messages[-1] == 2 * rounds * n
    assert synchronisations > 3
    told = fb.simulate(FedGOUCB(**SMALL, messages="candidates"), ENVIRONMENT, horizon, 3)
    assert told.scalars[-1] == n * (4 * 12 * (told.syncs[-1] - 1) + 2 * 12 + p)


def test_regret_of_both_phases_adds_up():
    trace = fb.simulate(FedGOUCB(**SMALL), ENVIRONMENT, 80, 3)
    assert trace.first_regret[6] == trace.first_regret[-1] == pytest.approx(trace.regret[6])
    np.testing.assert_allclose(trace.first_regret + trace.later_regret, trace.regret)
    other = fb.simulate("random", ENVIRONMENT, 10, 3)
    assert np.isnan(other.first_regret).all()
    np.testing.assert_array_equal(other.later_regret, other.regret)
    assert {"first_regret", "later_regret", "first_scalars", "first_messages"} <= set(trace.frame().columns)


def test_an_infinite_threshold_leaves_phase_one_alone():
    trace = fb.simulate(FedGOUCB(**SMALL, threshold=math.inf), ENVIRONMENT, 80, 3)
    assert trace.scalars[-1] == trace.first_scalars[-1] == 2 * 30 * 4 * 33
    assert trace.syncs[-1] == 1


def test_without_a_threshold_everybody_knows_everything():
    run = Simulation(OneGOUCB(**SMALL), ENVIRONMENT, 60, 3)
    for _ in range(60):
        run.run(1)
        models = run.agents.second.models
        assert not models.fresh.count.any()
        for array in (models.mean, models.spread):
            np.testing.assert_array_equal(array, np.broadcast_to(array[0], array.shape))
    assert run.ledger.syncs == 60 - 7 + 1
    w0, points = run.server.w, run.world.problem.get(Candidates).table()
    model = Sigmoid(width=4)
    f, g = model.values(w0, points), model.gradients(w0, points)
    V = np.eye(33) + run.server.pool.gram[0]
    np.testing.assert_allclose(models.spread[0], g @ np.linalg.solve(V, g.T), atol=1e-10)
    np.testing.assert_allclose(models.mean[0], f + g @ np.linalg.solve(V, run.server.pool.moment[0]), atol=1e-10)


def test_one_agent_has_nobody_to_wait_for():
    alone = Hartmann6(clients=1, arms=12)
    one, fed = (played(kind(**SMALL), alone, 60) for kind in (OneGOUCB, FedGOUCB))
    assert one[0] == fed[0]


def test_an_oracle_without_noise_is_descent():
    picks, rewards, run, points = played(FedGOUCB(**SMALL, temperature=math.inf), horizon=10)
    model = Sigmoid(width=4)
    w = model.beginning(6, run.agents.rng.common("model", 0), 2.0)
    x, y = points[picks[:7]], np.array(rewards[:7])
    for _ in range(30):
        w = w - 0.02 * 2 / 7 * (model.values(w, x) - y) @ model.gradients(w, x)
    np.testing.assert_allclose(run.server.w, w, atol=1e-12)


@pytest.mark.parametrize("inner", ["one-step", "refined", "centre"])
@pytest.mark.parametrize("gradients", ["fixed", "moving"])
def test_every_way_to_choose_runs_and_learns(inner, gradients):
    trace = fb.simulate(FedGOUCB(**SMALL, inner=inner, gradients=gradients), ENVIRONMENT, 60, 1)
    assert np.isfinite(trace.regret[-1])
    assert trace.syncs[-1] > 1


def test_all_ways_to_choose_are_one_where_the_model_is_linear():
    given = {"model": f"{__name__}:Affine", "rounds": 20, "explore": 8, "threshold": 0.5}
    runs = [
        Simulation(FedGOUCB(**given, inner=inner), ENVIRONMENT, 60, 4)
        for inner in ("linear", "one-step", "refined", "centre")
    ]
    for run in runs:
        run.run()
    who = np.arange(4)
    points = np.repeat(runs[0].world.problem.get(Candidates).table()[None], 4, axis=0)
    indices = [run.agents.scores(who, points) for run in runs]
    for other in indices[1:]:
        np.testing.assert_allclose(other, indices[0], rtol=0, atol=1e-8)


@pytest.mark.parametrize("inner", ["one-step", "refined", "centre"])
def test_an_index_is_the_most_that_the_model_says_in_the_ellipsoid(inner):
    """Against points of the ellipsoid drawn at random, with matrices from what an agent has observed."""
    run = Simulation(FedGOUCB(**SMALL, inner=inner, beta=0.5), ENVIRONMENT, 60, 1)
    run.run()
    points = run.world.problem.get(Candidates).table()
    second, model = run.agents.second, Sigmoid(width=4)
    w, V = second.estimates(0), np.linalg.inv(second.models.inverse[0])
    index = run.agents.scores(np.zeros(1, dtype=np.int64), points[None])[0]
    if inner == "centre":
        g = model.gradients(w, points)
        wanted = model.values(w, points) + np.sqrt(0.5 * np.einsum("kp,pk->k", g, np.linalg.solve(V, g.T)))
        np.testing.assert_allclose(index, wanted, atol=1e-8)
        return
    root, rng = np.linalg.cholesky(np.linalg.inv(V)), np.random.default_rng(0)
    drawn = rng.standard_normal((200, len(w)))
    drawn = w + np.sqrt(0.5) * (drawn / np.linalg.norm(drawn, axis=1, keepdims=True)) @ root.T
    assert (index >= np.max([model.values(one, points) for one in drawn], axis=0)).all()


def test_moving_gradients_are_those_of_the_estimate():
    run = Simulation(NGOUCB(width=3, rounds=5, explore=3, gradients="moving"), Hartmann6(clients=1, arms=9), 12, 0)
    points = run.world.problem.get(Candidates).table()
    picks, rewards = [], []
    learn = run.agents.learn
    run.agents.learn = lambda who, arms, chosen, paid: (
        picks.append(int(chosen[0])),
        rewards.append(float(paid[0])),
        learn(who, arms, chosen, paid),
    )
    run.run()
    model, w0 = Sigmoid(width=3), run.agents.second.features.w[0]
    V, r, w = np.eye(len(w0)), np.zeros(len(w0)), w0
    for x, y in zip(points[picks[3:]], rewards[3:], strict=True):
        g = model.gradients(w, x[None])[0]
        r = r + g * (g @ (w - w0) + y - model.values(w, x[None])[0])
        V = V + np.outer(g, g)
        w = w0 + np.linalg.solve(V, r)
    np.testing.assert_allclose(run.agents.second.estimates(0), w, atol=1e-10)


@pytest.mark.parametrize("model", ["rectifier", f"{__name__}:Exponential"])
def test_any_model_will_do(model):
    algorithm = FedGOUCB(model=model, width=4, rounds=10, explore=10, spread=0.3, rate=0.005)
    assert np.isfinite(fb.simulate(algorithm, ENVIRONMENT, 60, 0).regret[-1])
    assert np.isfinite(fb.simulate(algorithm, Cosine(clients=3, dim=4), 30, 0).regret[-1]), "any arms"


def test_messages_about_candidates_need_candidates():
    with pytest.raises(ConfigError, match="candidates"):
        fb.simulate(FedGOUCB(messages="candidates"), Cosine(clients=3, dim=4), 30, 0)
    with pytest.raises(ConfigError, match="inner"):
        FedGOUCB(messages="candidates", inner="centre")
    with pytest.raises(ConfigError, match="unknown model"):
        fb.simulate(FedGOUCB(model="sigmoids"), ENVIRONMENT, 30, 0)


def test_an_arm_that_is_no_candidate_is_refused():
    world = ENVIRONMENT.world(10, seeds_of(0).world)
    run = Simulation(FedGOUCB(**SMALL), ENVIRONMENT, 20, 0)
    run.run()
    arms = np.full((1, 3, world.problem.dim), 0.5)
    with pytest.raises(ValueError, match="candidates"):
        run.agents.choose(np.zeros(1, dtype=np.int64), arms)


def test_who_comes_late_is_told_the_model():
    environment = Hartmann6(clients=6, arms=12, stragglers=0.5, presence=0.5)
    run = Simulation(FedGOUCB(**SMALL, quorum=0.5), environment, 60, 2)
    run.run()
    assert run.agents.started.all()
    np.testing.assert_array_equal(run.agents.second.w, np.broadcast_to(run.server.w, (6, len(run.server.w))))


def test_an_ensemble_beats_the_printed_algorithm_and_chance():
    environment = Cosine8(schedule="round-robin")
    chance, printed, several = (
        fb.simulate(algorithm, environment, 1045, 1).regret[-1]
        for algorithm in ("random", FedGOUCB(explore=45, messages="candidates"), FedGOUCBEnsemble(explore=45))
    )
    assert several < 0.5 * printed < 0.5 * chance


def test_a_unit_follows_the_evidence_and_costs_nothing():
    """Seed 105: no observation of phase I is near the highest peak, and agents whose unit is that of phase I settle on
    another one.
    """
    environment = Hartmann6(schedule="round-robin")
    first, evident = (
        Simulation(FedGOUCBEnsemble(explore=45, units=units), environment, 700, 105) for units in ("first", "evidence")
    )
    for run in (first, evident):
        run.run()
    best = first.world.mean_rewards().argmax()
    assert first.server.pool.count[0, best] == 0
    assert evident.server.pool.count[0, best] > 100
    assert (evident.agents.second.unit > first.agents.second.unit).all()
    told = 5 * Sigmoid().parameters(6) + 2
    for run in (first, evident):
        assert run.trace().scalars[-1] == 20 * (4 * 50 * run.ledger.syncs + 2 * 50 + told)
