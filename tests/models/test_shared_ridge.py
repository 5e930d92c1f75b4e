"""Regressions on a shared inverse are those with matrices of their own, but for rounding."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import fedbandits as fb
from fedbandits.contract.arrays import shown_to
from fedbandits.contract.world import Environment
from fedbandits.models import shared_ridge
from fedbandits.models.keeping import Keeping
from fedbandits.models.ridge import REFRESH_EVERY, RidgeModels
from fedbandits.models.shared_ridge import SharedRidge, numbers_held
from fedbandits.testing import check_algorithm

EXACT = {"rtol": 1e-12, "atol": 1e-12}


class Twins:
    """The same things done to both kinds of models, and what the server of both has."""

    def __init__(self, n: int, dim: int, ridge: float, seed: int = 0) -> None:
        self.shared, self.own = SharedRidge(n, dim, ridge), RidgeModels(n, dim, ridge)
        self.rng = np.random.default_rng(seed)
        self.pool = [np.zeros((dim, dim)), np.zeros(dim), 0.0]
        self.sent: dict[int, tuple[np.ndarray, ...]] = {}

    def each(self, what, *arguments):
        return getattr(self.shared, what)(*arguments), getattr(self.own, what)(*arguments)

    def some(self, share=0.6):
        n = len(self.own)
        return np.flatnonzero(self.rng.random(n) < share) if n > 1 else np.arange(n)

    def learn(self, who):
        if len(who) == 0:
            return
        arms = self.rng.standard_normal((len(who), 3, self.own.dim)) / np.sqrt(self.own.dim)
        picks, rewards = self.rng.integers(3, size=len(who)), self.rng.standard_normal(len(who))
        np.testing.assert_allclose(*self.each("learn", who, arms, picks, rewards), **EXACT)

    def collect(self, who):
        handed = self.each("hand_over", who)
        for one, other in zip(*handed, strict=True):
            np.testing.assert_allclose(one, other, **EXACT)
        parts = [np.array(part) for part in handed[1]]
        self.pool = [held + part.sum(axis=0) for held, part in zip(self.pool, parts, strict=True)]
        self.sent = {int(agent): tuple(part[row] for part in parts) for row, agent in enumerate(who)}

    def tell(self, who, alike=True):
        if len(who) == 0:
            return
        gram, moment, count = (np.asarray(part)[None] for part in self.pool)
        told = shown_to(len(who), {"gram": gram, "moment": moment, "count": count})
        arrays = [told["gram"], told["moment"], told["count"]]
        self.each("replace", who, *(arrays if alike else map(np.array, arrays)))
        self.sent.clear()

    def agree(self):
        shared, own = self.shared, self.own
        for name in ("logdet", "growth", "theta", "inverse"):
            np.testing.assert_allclose(getattr(shared, name), getattr(own, name), **EXACT, err_msg=name)
        np.testing.assert_allclose(shared.matrices(), own.matrices(), **EXACT)
        for name in ("base", "fresh"):
            for one, other in zip(getattr(shared, name), getattr(own, name), strict=True):
                np.testing.assert_allclose(one, other, **EXACT, err_msg=name)
        everybody = np.arange(len(own))
        np.testing.assert_array_equal(shared.since, own.since)
        np.testing.assert_array_equal(shared.observed(everybody), own.observed(everybody))
        arms, width = self.rng.standard_normal((len(own), 5, own.dim)), np.linspace(0.1, 2, len(own))
        scores = [models.scores(everybody, arms, width) for models in (shared, own)]
        np.testing.assert_allclose(*scores, rtol=1e-11, atol=1e-12)
        np.testing.assert_array_equal(shared.choose(everybody, arms, width), scores[0].argmax(axis=1))


ACTS = st.lists(st.sampled_from(["learn", "learn", "learn", "collect", "tell", "tell apart", "lose", "save", "absorb"]))


@settings(max_examples=40, deadline=None)
@given(st.integers(1, 6), st.integers(1, 9), st.sampled_from([0.1, 1.0]), st.integers(0, 10**6), ACTS)
def test_whatever_happens_both_know_the_same(n, dim, ridge, seed, acts):
    twins = Twins(n, dim, ridge, seed)
    for act in acts:
        who = twins.some()
        if act == "learn":
            twins.learn(who)
        elif act == "collect":
            twins.collect(who)
        elif act.startswith("tell"):
            twins.tell(who, alike=act == "tell")
        elif act == "absorb" and len(who):
            x = twins.rng.standard_normal((len(who), dim))
            twins.each("absorb", who, x[:, :, None] * x[:, None, :], x, np.ones(len(who)))
            twins.sent.clear()
        elif act == "lose" and twins.sent:
            lost = np.array(sorted(twins.sent))
            parts = [np.array([twins.sent[agent][part] for agent in lost.tolist()]) for part in range(3)]
            twins.each("unsettle", lost, *parts)
            twins.sent.clear()
        elif act == "save":
            loaded = SharedRidge(n, dim, ridge)
            loaded.load(twins.shared.state())
            twins.shared = loaded
    twins.agree()
    assert len(twins.shared.gram) <= max(n, 1)


@pytest.mark.parametrize("dim", [1, 2, 3, 8, 25])
@pytest.mark.parametrize("turns", [1, 3, 12, 40])
def test_agents_who_hear_nothing_go_dense_and_know_the_same(dim, turns):
    twins = Twins(3, dim, 0.5)
    for _ in range(turns):
        twins.learn(np.arange(3))
    twins.agree()
    assert len(twins.shared.gram) == (3 if turns >= max(1, dim // 2) else 1)
    twins.collect(np.arange(3))
    twins.tell(np.arange(3))
    twins.agree()
    assert len(twins.shared.gram) == 1


def test_rows_are_computed_anew_after_many_updates():
    twins = Twins(1, 4, 1.0)
    for _ in range(REFRESH_EVERY + 10):
        twins.learn(np.zeros(1, dtype=np.int64))
    assert twins.shared.updates[0] < 20
    twins.agree()


def test_bad_statistics_change_nothing():
    twins = Twins(3, 4, 1.0)
    twins.learn(np.arange(3))
    before = twins.shared.state()
    bad = np.tile(-5 * np.eye(4), (3, 1, 1))
    with pytest.raises(ValueError, match="not positive definite"):
        twins.shared.replace(np.arange(3), bad, np.zeros((3, 4)), np.ones(3))
    after = twins.shared.state()
    assert all(np.array_equal(before[name], after[name]) for name in before)


def test_an_agent_alone_computes_the_same_bits_as_among_others():
    n, dim = 5, 6
    together, alone = SharedRidge(n, dim, 1.0), [SharedRidge(1, dim, 1.0) for _ in range(n)]
    rng, first = np.random.default_rng(1), np.zeros(1, dtype=np.int64)
    for turn in range(9):
        who = np.flatnonzero(rng.random(n) < 0.7)
        arms, picks, rewards = rng.random((len(who), 4, dim)), rng.integers(4, size=len(who)), rng.random(len(who))
        together.learn(who, arms, picks, rewards)
        for place, agent in enumerate(who):
            one = slice(place, place + 1)
            alone[agent].learn(first, arms[one], picks[one], rewards[one])
        if turn == 4:
            gram, moment = 3 * np.eye(dim)[None], np.ones((1, dim))
            told = shown_to(n, {"gram": gram, "moment": moment, "count": np.full(1, 9.0)})
            together.replace(np.arange(n), *told.values())
            for models in alone:
                models.replace(first, gram, moment, np.full(1, 9.0))
    for agent, models in enumerate(alone):
        one, other = together.share(agent), models.share(0)
        assert not [name for name in one if not np.array_equal(one[name], other[name])]


SETTINGS = {
    "dislinucb:threshold=0.5": "linear:clients=4,dim=6,arms=5",
    "dislinucb:threshold=3,width=loose": "linear:clients=5,dim=9,arms=3,draws=hash",
    "dislinucb:every=3": "linear:clients=4,dim=8,arms=6,schedule=random",
}


@pytest.mark.parametrize(
    "algorithm", [pytest.param(name, marks=pytest.mark.slow if "every" in name else ()) for name in SETTINGS]
)
def test_the_contract_is_kept(algorithm):
    check_algorithm(f"{algorithm},memory=shared", SETTINGS[algorithm])


@pytest.mark.parametrize("schedule", ["all", "random"])
@pytest.mark.parametrize(
    "algorithm", ["dislinucb:threshold=1", "dislinucb:every=9,width=loose", "dislinucb:threshold=inf"]
)
@pytest.mark.parametrize("dim", [3, 10])
def test_runs_take_the_same_decisions_and_say_the_same(algorithm, schedule, dim):
    environment = f"linear:clients=12,dim={dim},arms=7,schedule={schedule}"
    horizon = 100 if schedule == "all" else 700
    own, shared = (
        fb.Simulation(f"{algorithm},memory={how}", environment, horizon, seed=1) for how in ("own", "shared")
    )
    stepped = fb.Simulation(f"{algorithm},memory=shared", environment, horizon, seed=1)
    own.compiled, shared.compiled, stepped.compiled = True, True, False
    for run in (own, shared, stepped):
        run.run()
    one, other = own.trace(), shared.trace()
    assert one.syncs[-1] > 5 or "inf" in algorithm
    np.testing.assert_array_equal(one.regret, other.regret)
    np.testing.assert_array_equal(one.counts, other.counts)
    np.testing.assert_allclose(shared.agents.models.theta, own.agents.models.theta, rtol=1e-12, atol=1e-12)
    state, slowly = shared.state(), stepped.state()
    assert not [name for name in state if not np.array_equal(state[name], slowly[name])]


def test_portions_are_asked_for_one_after_the_other_and_metered_alike():
    environment = fb.environments.Linear(clients=9, dim=4, arms=5)
    algorithm = fb.algorithms.DisLinUCB(threshold=0.5, memory="shared")
    whole, cut = (fb.Simulation(algorithm, environment, 60) for _ in range(2))
    cut.server._portion = 2
    whole.run()
    cut.run()
    np.testing.assert_array_equal(whole.counts, cut.counts)
    np.testing.assert_array_equal(whole.syncs, cut.syncs)
    np.testing.assert_allclose(whole.server.pool.gram, cut.server.pool.gram, **EXACT)
    assert whole.ledger.syncs > 3


def test_matrices_are_shared_where_own_ones_would_take_more_than_four_gigabytes():
    few, many = (fb.environments.Linear(clients=n, dim=25, arms=10, draws="hash") for n in (200_000, 1_000_000))
    assert not Keeping().shares(few.clients, 25)
    assert Keeping().shares(many.clients, 25)
    assert not Keeping(memory="own").shares(many.clients, 25)
    assert Keeping().numbers_held(many.clients, 25) < 0.2 * Keeping(memory="own").numbers_held(many.clients, 25)


def test_what_agents_are_said_to_keep_is_what_they_keep_of_four_observations():
    for dim in (1, 2, 7, 25):
        models = SharedRidge(100, dim, 1.0)
        held = [getattr(models, name)[:4] for name in models._held]
        rest = [getattr(models, name) for name in models.keeps if len(getattr(models, name)) == 100]
        assert sum(array.size for array in (*held, *rest)) == 100 * numbers_held(dim)


def memory_of_this_process() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="this system does not say what a process takes")
def test_room_that_nobody_has_written_to_takes_no_memory() -> None:
    """Two of twelve observations: 42 of 250 MB."""
    agents, before = 100_000, memory_of_this_process()
    run = fb.Simulation(
        "dislinucb:memory=shared,threshold=inf", f"linear:clients={agents},dim=25,draws=hash", horizon=2
    )
    run.run()
    models = run.agents.models
    assert models.points.shape == (12, agents, 25)
    assert np.all(models.held == 2)
    assert memory_of_this_process() - before < 0.5 * models.points.nbytes


@pytest.mark.parametrize("allowed", [1, 3])
def test_where_memory_is_refused_there_is_room_for_fewer(monkeypatch: pytest.MonkeyPatch, allowed: int) -> None:
    """As much as needed is made when it is needed, and nobody can tell."""
    plenty, zeros, dim = SharedRidge(2, 40, 1.0), np.zeros, 40
    held = 0

    def scarce(shape: int | tuple[int, ...], dtype: type = float) -> np.ndarray:
        if isinstance(shape, tuple) and len(shape) == 3 and shape[0] > held + allowed:
            raise MemoryError
        return zeros(shape, dtype)

    with monkeypatch.context() as patched:
        patched.setattr(np, "zeros", scarce)
        little = SharedRidge(2, dim, 1.0)
        rooms, rng = {len(little.points)}, np.random.default_rng(0)
        for _ in range(30):
            arms, rewards = rng.standard_normal((2, 3, dim)), rng.standard_normal(2)
            held = int(little.held.max()) + 1
            for models in (little, plenty):
                models.learn(np.arange(2), arms, np.ones(2, dtype=np.int64), rewards)
            rooms.add(len(little.points))
    assert len(rooms) > 5
    one, other = little.state(), plenty.state()
    assert not [name for name in one if not np.array_equal(one[name], other[name])]


def test_what_cannot_be_had_at_all_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(shape: tuple[int, ...]) -> np.ndarray:
        raise MemoryError

    monkeypatch.setattr(np, "zeros", refused)
    with pytest.raises(MemoryError):
        shared_ridge._room(2, 5, 1)


def test_a_million_agents_are_let_through(monkeypatch: pytest.MonkeyPatch) -> None:
    from fedbandits.simulation import memory

    monkeypatch.setattr(memory, "machine_memory", lambda: 6 * 10**9)
    algorithm = fb.algorithms.DisLinUCB()
    lean: Environment = fb.environments.Linear(clients=10**6, dim=25, arms=10, draws="hash")
    memory.check_memory(algorithm, lean, 20)
    with pytest.raises(fb.ConfigError, match=r"needs at least 10\.\d GB"):
        memory.check_memory(fb.algorithms.DisLinUCB(memory="own"), lean, 20)
