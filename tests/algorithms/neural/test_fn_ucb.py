"""FN-UCB: rounds and what they cost, its two indices, mixing weights, ablations, and one network that is passed on."""

from __future__ import annotations

import numpy as np
import pytest

import fedbandits as fb
from fedbandits.algorithms.neural.fn_ucb import FNUCB, FNUCBLess
from fedbandits.contract.errors import ConfigError
from fedbandits.contract.ledger import DIRECTIONS, UNITS
from fedbandits.contract.messages import Message
from fedbandits.contract.problem import Problem
from fedbandits.contract.streams import Streams
from fedbandits.environments import Cosine
from fedbandits.models.networks import gradient_sums, gradients
from fedbandits.models.pooled import PooledModels
from fedbandits.testing import check_algorithm
from fedbandits.testing.recording import recorded

N, D, M = 2, 4, 4
SMALL = {"width": M, "steps": 3, "ramp": 10}
WAYS = [DIRECTIONS.index("up"), DIRECTIONS.index("down")]
SCALARS = UNITS.index("scalars")


def world(**parameters):
    return Cosine(**({"clients": N, "dim": D, "arms": 5} | parameters))


def regrets(algorithm, horizon=60, **parameters):
    return fb.simulate(algorithm, world(**parameters), horizon, seed=3).regret


@pytest.mark.parametrize("kind", [FNUCB, FNUCBLess])
def test_after_every_round_everybody_knows_everything(kind):
    """A20.3: with D = 0 the pool is everybody's, at all times and in all agents."""
    algorithm = kind(**SMALL)
    for event in recorded(algorithm, world(), 15):
        agents = event.side.agents
        assert event.crossed
        phi = [
            gradients(
                agents._network, agents.tangent.theta, np.array([i]), agents.data.arms[i, :, : event.step + 1].T[None]
            )[0]
            for i in range(N)
        ]
        everything = sum(rows.T @ rows for rows in phi)
        for i in range(N):
            np.testing.assert_allclose(agents.pool.gram[agents.pool.row[i]], everything, rtol=1e-9, atol=1e-9)
            np.testing.assert_allclose(
                np.linalg.inv(agents.own.inverse[i]),
                phi[i].T @ phi[i] + 0.1 * np.eye(len(everything)),
                rtol=1e-4,
                atol=1e-5,
            )
        assert not agents.pool.since.any()


@pytest.mark.parametrize("profile", ["paper", "code-fixed"])
@pytest.mark.parametrize("matrix", ["full", "diagonal"])
def test_one_agent_has_no_use_for_a_mean(profile, matrix):
    """A20.4: both algorithms are the same for N = 1, and the pool is its own."""
    parameters = SMALL | {"profile": profile, "matrix": matrix}
    both = [regrets(kind(**parameters), clients=1, doubled=profile == "paper") for kind in (FNUCB, FNUCBLess)]
    np.testing.assert_allclose(*both, rtol=1e-9)


def test_the_mean_of_roots_is_at_most_the_root_of_the_mean():
    """A20.5."""
    problem = Problem(agents=3, dim=D, arms=5, horizon=20)
    rng = np.random.default_rng(0)
    both = [
        kind(**SMALL, mixing=1.0).agents(problem, 3, Streams(np.random.SeedSequence(1), 3))
        for kind in (FNUCB, FNUCBLess)
    ]
    p = both[0].average.shape[1]
    roots = rng.standard_normal((3, p, p)) * rng.exponential(size=(3, 1, 1))
    inverses = roots @ roots.swapaxes(1, 2) / p
    both[0].told.values[:], both[1].told.values[:] = inverses, inverses.mean(axis=0)
    arms = rng.standard_normal((3, 40, D))
    main, less = (agents.scores(np.arange(3), arms) for agents in both)
    assert (main <= less + 1e-12).all()
    assert (main < less - 1e-3).any()


def test_without_the_network_it_is_linear_ucb_on_features():
    """A20.6: the same choices as ridge regression on tangent features, and no training."""
    algorithm = FNUCBLess(**SMALL, mixing=0.0, nu_all=0.5)
    V = b = None
    for event in recorded(algorithm, world(clients=1), 40):
        agents = event.side.agents
        network, theta = agents._network, agents.tangent.theta
        np.testing.assert_array_equal(agents.network, theta)
        assert all("network" not in message.arrays for _, message in event.crossed)
        phi = gradients(network, theta, np.array([0]), event.arms)[0]
        if V is None:
            V, b = 0.1 * np.eye(phi.shape[1]), np.zeros(phi.shape[1])
        spread = np.sqrt(np.einsum("kp,pk->k", phi, np.linalg.solve(V, phi.T)))
        index = phi @ np.linalg.solve(V, b) + 0.5 * np.sqrt(0.1) * spread
        assert index[event.picks[0]] == pytest.approx(index.max(), rel=1e-8)
        x = phi[event.picks[0]]
        V, b = V + np.outer(x, x), b + event.rewards[0] * x


@pytest.mark.parametrize("determinant", ["full", "diagonal"])
def test_rounds_become_rarer_with_the_threshold(determinant):
    """A20.7, on choices that do not depend on rounds: alpha = 0 and one agent."""
    syncs = [
        fb.simulate(
            FNUCBLess(**SMALL, mixing=0.0, threshold=D_, determinant=determinant), world(clients=1), 60, seed=2
        ).syncs[-1]
        for D_ in (0.0, 1.0, 5.0, 50.0, np.inf)
    ]
    assert syncs[0] == 60
    assert syncs[-1] == 0
    assert (np.diff(syncs) <= 0).all()
    assert 1 < syncs[2] < 60


def test_diagonals_are_enough_where_features_lie_along_the_axes():
    """A20.8."""
    problem = Problem(agents=1, dim=D, arms=3, horizon=20)
    rng = np.random.default_rng(5)
    full, diagonal = (
        FNUCBLess(**SMALL, mixing=0.0, matrix=matrix).agents(problem, 1, Streams(np.random.SeedSequence(1), 1))
        for matrix in ("full", "diagonal")
    )
    p, who = full.average.shape[1], np.array([0])
    for _ in range(30):
        x, y = np.zeros((1, p)), rng.normal(size=1)
        x[0, rng.integers(p)] = rng.normal()
        for agents in (full, diagonal):
            agents.pool.learn_chosen(who, x, y)
    phi = (np.eye(p) * rng.standard_normal(p))[None]
    np.testing.assert_allclose(full.pooled_index(who, phi), diagonal.pooled_index(who, phi), rtol=1e-9, atol=1e-12)


def test_theorys_weight_lies_between_nothing_and_one():
    """A20.9: 1 where all doubts are equal."""
    algorithm = FNUCB(**SMALL, mixing="theory", probes=30)
    seen = [float(event.side.agents.alpha[0]) for event in recorded(algorithm, world(), 12)]
    assert all(0 < alpha <= 1 for alpha in seen)
    assert len(set(seen)) > 5
    problem = Problem(agents=1, dim=D, arms=3, horizon=5)
    agents = FNUCB(**SMALL, mixing="theory", probes=1).agents(problem, 1, Streams(np.random.SeedSequence(0), 1))
    assert agents._certainty(np.array([0]))[0] == 1.0


def test_the_theorems_version_mixes_in_the_first_turn_of_an_epoch_alone():
    algorithm = FNUCB(**SMALL, mixing="theory-first", probes=5, threshold=4.0)
    for event in recorded(algorithm, world(), 25):
        agents = event.side.agents
        told = agents.weights(np.arange(N))
        fresh = agents.pool.since > 0
        np.testing.assert_array_equal(told[fresh], 0.0)
        np.testing.assert_array_equal(told[~fresh], agents.alpha[~fresh])


def test_the_linear_weight_is_that_of_the_released_code():
    problem = Problem(agents=1, dim=D, arms=3, horizon=800)
    agents = FNUCB(width=M).agents(problem, 1, Streams(np.random.SeedSequence(0), 1))
    for turn, alpha in ((0, 0), (3, 0), (4, 1 / 700), (702, 699 / 700), (703, 1), (750, 1)):
        agents.data.count[:] = turn
        assert agents.weights(np.array([0]))[0] == pytest.approx(alpha)


@pytest.mark.parametrize("kind", [FNUCB, FNUCBLess])
@pytest.mark.parametrize("matrix", ["full", "diagonal"])
@pytest.mark.parametrize("mixing", ["linear", "theory"])
def test_a_round_costs_what_the_table_says(kind, matrix, mixing):
    """A13, and one for counts each way."""
    algorithm = kind(**SMALL, matrix=matrix, mixing=mixing, probes=3)
    p = M * D + 2 * M + 1
    square = p if matrix == "diagonal" else p * p
    counts = [event.side.ledger.counts for event in recorded(algorithm, world(), 1)][-1]
    up, down = counts[WAYS, SCALARS] / N
    told = mixing == "theory"
    assert up == 2 * square + 2 * p + 1 + told
    assert down == (square if kind.less else N * square) + square + 2 * p + 1 + told


def test_networks_are_averaged_and_may_not_be():
    for averaged in (True, False):
        algorithm = FNUCBLess(**SMALL, mixing=1.0, averaged=averaged)
        for event in recorded(algorithm, world(), 6):
            agents = event.side.agents
        np.testing.assert_allclose(agents.average[0], agents.network.mean(axis=0), rtol=1e-12)
        assert np.abs(agents.network[0] - agents.network[1]).max() > 1e-4
        who, arms = np.arange(N), np.random.default_rng(1).standard_normal((N, 3, D))
        scores = agents.scores(who, arms)
        agents.average[:] = 0.0
        changed = (agents.scores(who, arms) != scores).any()
        assert changed == averaged


def test_one_network_is_passed_from_agent_to_agent():
    algorithm = FNUCBLess(**SMALL, profile="code-alias")
    passed = None
    for event in recorded(algorithm, world(), 8):
        asked = [message for way, message in event.crossed if way == "down" and message.kind == "train"]
        trained = [message for way, message in event.crossed if message.kind == "trained"]
        assert [message.who.tolist() for message in asked] == [[0], [1]]
        if passed is not None:
            np.testing.assert_array_equal(asked[0].arrays["network"], passed)
        np.testing.assert_array_equal(asked[1].arrays["network"], trained[0].arrays["network"])
        agents = event.side.agents
        theta, data = asked[1].arrays["network"].copy(), agents.data
        for _ in range(algorithm.steps):
            slope = gradient_sums(agents._network, theta, data, np.array([1]), data.count[[1]])
            theta = theta - 0.01 / data.count[1] * (2 * slope + 0.1 * theta)
        np.testing.assert_allclose(trained[1].arrays["network"], theta, rtol=1e-9, atol=1e-12)
        passed = trained[1].arrays["network"]
        for known in (agents.tangent.theta, agents.average):
            np.testing.assert_array_equal(known, np.repeat(passed, N, axis=0))


@pytest.mark.parametrize(
    "parameters",
    [
        {"profile": "code-alias"},
        {"profile": "paper", "matrix": "diagonal", "mixing": "theory", "probes": 5},
        {"mixing": "theory-first", "threshold": 2.0, "determinant": "full", "probes": 5, "start": "average"},
    ],
    ids=["alias", "paper-diagonal-theory", "theory-first-average"],
)
def test_variants_keep_the_promises(parameters):
    profile = parameters.get("profile")
    moving = {"meanwhile": "features are gradients at the network as it is when something is observed"}
    check_algorithm(
        FNUCBLess(**SMALL, **parameters),
        world(clients=3, doubled=profile == "paper"),
        horizon=14,
        excused=moving if profile == "code-alias" else {},
    )


@pytest.mark.parametrize(("rate", "steps"), [(1e6, 30), (10.0, 2)])
def test_networks_that_stray_are_cut_down(rate, steps):
    """At the first rate numbers overflow, at the second they are merely large."""
    problem = Problem(agents=1, dim=D, arms=3, horizon=5)
    agents = FNUCBLess(width=M, rate=rate, steps=steps).agents(problem, 1, Streams(np.random.SeedSequence(0), 1))
    who = np.array([0])
    agents.learn(who, np.ones((1, 3, D)), np.array([0]), np.array([3.0]))
    reply = agents.answer(Message("collect", who))
    network = reply.arrays["network"]
    assert np.isfinite(network).all()
    most = 10 * np.sqrt(network.size)
    assert np.linalg.norm(network) == pytest.approx(most if rate == 10.0 else np.linalg.norm(agents.before))
    assert np.linalg.norm(network) <= most * (1 + 1e-9)


def test_what_cannot_be_is_refused():
    with pytest.raises(ConfigError, match="one network is passed on"):
        FNUCB(profile="code-alias", averaged=False)
    with pytest.raises(ConfigError, match="determinant: matrices of which the diagonal is kept have no other"):
        FNUCB(matrix="diagonal", determinant="full")


@pytest.mark.parametrize("kind", [FNUCB, FNUCBLess])
def test_what_was_told_stays_as_it_was(kind):
    """Who was not told since goes on with the last that it was told, whatever the server has added or loaded."""
    simulation = fb.Simulation(kind(**SMALL), world(), 12)
    simulation.run(4)
    server, snapshot = simulation.server, simulation.server.state()
    held = [server.gram[:], server.inverses[:]]
    before = [array.copy() for array in held]
    simulation.run(4)
    server.load(snapshot)
    for array, wanted in zip(held, before, strict=True):
        np.testing.assert_array_equal(array, wanted)
    told = [simulation.agents.pool.gram[:], simulation.agents.told.values[:]]
    before = [array.copy() for array in told]
    server.load(snapshot)
    simulation.run(4)
    for array, wanted in zip(told, before, strict=True):
        np.testing.assert_array_equal(array, wanted)


@pytest.mark.parametrize("kind", [FNUCB, FNUCBLess])
@pytest.mark.parametrize(
    "parameters",
    [
        {"profile": "code-alias"},
        {"profile": "code-fixed"},
        {"matrix": "diagonal"},
        {"every": 3},
        {"mixing": "theory"},
    ],
)
def test_what_becomes_of_letters_is_the_same_whether_or_not_they_are_written(kind, parameters):
    """Runs, what was metered and whole snapshots, to the bit; where a course is pursued and where none is known."""
    environment, algorithm = world(), kind(**parameters)
    runs = [fb.Simulation(algorithm, environment, 24) for _ in range(2)]
    runs[1].compiled = False
    for run in runs:
        run.run()
    mine, other = (run.state() for run in runs)
    assert mine.keys() == other.keys()
    for name, array in mine.items():
        np.testing.assert_array_equal(array, other[name], name)


@pytest.mark.parametrize("kind", [FNUCB, FNUCBLess])
def test_a_course_is_pursued_where_everybody_has_one_observation(kind, monkeypatch):
    """The letters of matrices are not written down then; with anything else to say they are."""
    written = []
    plain = PooledModels.handed
    monkeypatch.setattr(PooledModels, "handed", lambda self, who: written.append(len(who)) or plain(self, who))
    fb.simulate(kind(profile="code-alias"), world(), 6)
    assert not written
    fb.simulate(kind(profile="code-alias", every=2), world(), 6)
    assert len(written) == 3
