"""Regressions on what is told and a little of one's own, held against `RidgeModels`; and one agent against many."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedbandits.linalg.recycled import sealed
from fedbandits.models.pooled import PATIENCE, ROUNDS, PooledModels
from fedbandits.models.ridge import RidgeModels
from fedbandits.models.shared_rows import Told

N, D, RIDGE = 3, 9, 0.5
WHO = np.arange(N)


class Both:
    """The same done to pooled models, to each agent's own alone, and to models that keep everything for everybody."""

    def __init__(self, patient):
        self.pooled = PooledModels(N, D, RIDGE, patient=patient)
        self.single = [PooledModels(1, D, RIDGE, patient=patient) for _ in range(N)]
        self.plain = RidgeModels(N, D, RIDGE)

    def learn(self, who, x, y):
        self.pooled.learn_chosen(who, x, y)
        self.plain.learn_chosen(who, x, y)
        for place, agent in enumerate(who):
            self.single[agent].learn_chosen(np.array([0]), x[place : place + 1], y[place : place + 1])

    def handed(self, who):
        sent, plain = self.pooled.handed(who), [array[who] for array in self.plain.fresh]
        self.plain.settle(who)
        for place, agent in enumerate(who):
            alone = self.single[agent].handed(np.array([0]))
            for name in sent:
                np.testing.assert_array_equal(sent[name][place], alone[name][0])
        for name, wanted in zip(("gram", "moment", "count"), plain, strict=True):
            np.testing.assert_allclose(sent[name], wanted, rtol=1e-12, atol=1e-12)
        return {name: array.copy() for name, array in sent.items()}

    def give_back(self, who, sent):
        self.pooled.unsettle(who, sent["gram"], sent["moment"], sent["count"])
        self.plain.unsettle(who, sent["gram"], sent["moment"], sent["count"])
        for place, agent in enumerate(who):
            one = slice(place, place + 1)
            self.single[agent].unsettle(np.array([0]), *(sent[name][one] for name in ("gram", "moment", "count")))

    def tell(self, who, gram, moment, count):
        shown = [np.broadcast_to(part, (len(who), *np.shape(part))) for part in (gram, moment, count)]
        self.pooled.replace(who, *shown)
        self.plain.replace(who, *shown)
        for agent in who:
            self.single[agent].replace(np.array([0]), gram[None], moment[None], np.array([count]))

    def agree(self, rng):
        arms = rng.standard_normal((N, 4, D))
        found = self.pooled.scores(WHO, arms, 0.7)
        spread = np.einsum("nkd,nde,nke->nk", arms, self.plain.inverse, arms)
        wanted = np.einsum("nkd,nd->nk", arms, self.plain.theta) + 0.7 * np.sqrt(spread)
        np.testing.assert_allclose(found, wanted, rtol=1e-8, atol=1e-8)
        for agent, alone in enumerate(self.single):
            np.testing.assert_array_equal(found[agent], alone.scores(np.array([0]), arms[[agent]], 0.7)[0])
            mine, own = self.pooled.share(agent), alone.share(0)
            assert mine.keys() == own.keys()
            for name in mine:
                np.testing.assert_array_equal(mine[name], own[name], err_msg=name)
        np.testing.assert_array_equal(self.pooled.since, self.plain.fresh.count)
        base, fresh = self.pooled.diagonals()
        np.testing.assert_allclose(base, np.einsum("ndd->nd", self.plain.base.gram), rtol=1e-9, atol=1e-9)
        np.testing.assert_allclose(fresh, np.einsum("ndd->nd", self.plain.fresh.gram), rtol=1e-9, atol=1e-9)


@given(st.integers(0, 10**6), st.booleans())
@settings(max_examples=25, deadline=None)
def test_they_know_what_plain_models_know(seed, patient):
    """Turns, rounds with all or with some, observations in mid-conversation, and letters that are lost."""
    rng = np.random.default_rng(seed)
    both = Both(patient)
    total = [np.zeros((D, D)), np.zeros(D), 0.0]
    for _ in range(12):
        for _ in range(rng.integers(0, 4)):
            who = np.flatnonzero(rng.random(N) < 0.7)
            both.learn(who, rng.standard_normal((len(who), D)), rng.standard_normal(len(who)))
        both.agree(rng)
        who = WHO if rng.random() < 0.6 else np.flatnonzero(rng.random(N) < 0.6)
        if len(who) == 0:
            continue
        sent = both.handed(who)
        both.agree(rng)
        if rng.random() < 0.3:
            both.learn(who[:1], rng.standard_normal((1, D)), rng.standard_normal(1))
        if rng.random() < 0.25:
            both.give_back(who, sent)
        else:
            total = [part + sent[name].sum(axis=0) for part, name in zip(total, sent, strict=True)]
            both.tell(who, *total)
        both.agree(rng)


def test_growth_is_that_of_the_determinant():
    rng, both = np.random.default_rng(4), Both(patient=False)
    for _ in range(5):
        both.learn(WHO, rng.standard_normal((N, D)), rng.standard_normal(N))
    np.testing.assert_allclose(both.pooled.growth, both.plain.growth, rtol=1e-9)
    sent = both.handed(WHO)
    both.learn(WHO, rng.standard_normal((N, D)), rng.standard_normal(N))
    both.tell(WHO, *(part.sum(axis=0) for part in sent.values()))
    np.testing.assert_allclose(both.pooled.growth, both.plain.growth, rtol=1e-9)


def test_what_all_were_told_is_kept_once_and_computed_anew_now_and_then():
    rng = np.random.default_rng(1)
    models = PooledModels(N, D, RIDGE, patient=True)
    gram, moment = np.zeros((1, D, D)), np.zeros((1, D))
    for turn in range(1, ROUNDS + 4):
        models.learn_chosen(WHO, 0.1 * rng.standard_normal((N, D)), rng.standard_normal(N))
        sent = models.handed(WHO)
        gram, moment = gram + sent["gram"].sum(axis=0), moment + sent["moment"].sum(axis=0)
        models.replace(WHO, *(np.broadcast_to(p, (N, *p.shape[1:])) for p in (gram, moment, np.array([3.0 * turn]))))
        assert len(models.gram) == 1
        assert models.rounds[0] == turn % (ROUNDS + 1) if D >= 8 * N else True
    V = gram[0] + RIDGE * np.eye(D)
    np.testing.assert_allclose(models.inverse[0], np.linalg.inv(V), rtol=1e-8, atol=1e-10)
    np.testing.assert_allclose(models.theta[0], np.linalg.solve(V, moment[0]), rtol=1e-7, atol=1e-9)
    assert models.logdet[0] == pytest.approx(np.linalg.slogdet(V)[1])


def test_those_who_cannot_be_told_go_on():
    """A patient agent whose server is out of reach keeps a few observations waiting, then makes its own."""
    rng, both = np.random.default_rng(2), Both(patient=True)
    for turn in range(2 * PATIENCE + 3):
        both.learn(np.array([1]), rng.standard_normal((1, D)), rng.standard_normal(1))
        both.agree(rng)
        assert both.pooled.held[1] == (turn + 1) % PATIENCE
    assert len(both.pooled.gram) == 2


def test_bad_statistics_change_nothing():
    rng, models = np.random.default_rng(3), PooledModels(N, D, RIDGE)
    models.learn_chosen(WHO, rng.standard_normal((N, D)), rng.standard_normal(N))
    before = models.state()
    good, bad = np.zeros((D, D)), -np.eye(D)
    for gram, moment in (
        (np.stack([good, bad, good]), np.zeros((N, D))),
        (np.broadcast_to(bad, (N, D, D)), np.broadcast_to(np.zeros(D), (N, D))),
        (np.zeros((N, D, D)), np.full((N, D), np.nan)),
    ):
        with pytest.raises(ValueError, match="not positive definite, or not finite"):
            models.replace(WHO, gram, moment, np.ones(N))
        for name, array in models.state().items():
            np.testing.assert_array_equal(array, before[name])


def test_what_nobody_writes_to_any_more_is_kept_as_it_is():
    """Sums and values that are sealed are not copied, and become an agent's own as soon as it changes them."""
    rng, models, told = np.random.default_rng(4), PooledModels(N, D, RIDGE), Told(N, np.zeros((D, D)))
    x = rng.standard_normal((2, D))
    gram, moment = sealed(x.T @ x), np.zeros((1, D))
    shown = np.broadcast_to(gram, (N, D, D))
    models.replace(WHO, shown, np.broadcast_to(moment, (N, D)), np.full(N, 2.0))
    told.tell(WHO, shown)
    assert np.shares_memory(models.gram, gram)
    assert np.shares_memory(told.values, gram)
    before = gram.copy()
    models.learn_chosen(WHO[:2], rng.standard_normal((2, D)), rng.standard_normal(2))
    models.handed(WHO)
    told.tell(WHO[1:2], np.ones((1, D, D)))
    np.testing.assert_array_equal(gram, before)
    np.testing.assert_array_equal(told.values[told.row[0]], before)
    np.testing.assert_array_equal(told.values[told.row[1]], 1.0)
    assert not np.shares_memory(models.gram, gram)


def test_agents_that_are_told_apart_have_rows_of_their_own():
    told = Told(4, np.zeros(2))
    told.tell(np.array([0, 2]), np.broadcast_to(np.ones(2), (2, 2)))
    told.tell(np.array([1, 2]), np.array([[5.0, 5.0], [6.0, 6.0]]))
    np.testing.assert_array_equal(told.values[told.row][:, 0], [1, 5, 6, 0])
    other = Told(4, np.zeros(2))
    other.load(told.state())
    np.testing.assert_array_equal(other.values[other.row], told.values[told.row])
    with pytest.raises(ValueError, match="row names rows that are not there"):
        other.load(told.state() | {"row": np.array([0, 1, 2, 9])})
    with pytest.raises(ValueError, match="values has shape"):
        other.load(told.state() | {"values": np.zeros((1, 2))})
