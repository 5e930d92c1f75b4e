"""Inverses of what agents have looked at, held against plain algebra; and one agent against many, bit by bit."""

from __future__ import annotations

import numpy as np
import pytest

from fedbandits.linalg.totals import mean_of
from fedbandits.models import spreads
from fedbandits.models.spreads import WAITING, Spreads

N, D, RIDGE = 3, 7, 0.5


def looked(rng, models, turns):
    """Observations of some agents at a time; returns everybody's."""
    seen = [[] for _ in range(N)]
    for _ in range(turns):
        who = np.flatnonzero(rng.random(N) < 0.8)
        x = rng.standard_normal((len(who), D))
        models.learn(who, x)
        for agent, row in zip(who, x, strict=True):
            seen[agent].append(row)
    return [np.array(rows).reshape(-1, D) for rows in seen]


@pytest.mark.parametrize("every", [None, 5])
def test_inverses_are_those_of_all_that_was_seen(every, monkeypatch):
    """Beyond what waits, and with inverses computed anew every now and then."""
    if every is not None:
        monkeypatch.setattr(spreads, "REFRESH_EVERY", every)
    rng = np.random.default_rng(0)
    models = Spreads(N, D, RIDGE)
    seen = looked(rng, models, 2 * WAITING + 9)
    wanted = np.array([rows.T @ rows + RIDGE * np.eye(D) for rows in seen])
    np.testing.assert_allclose(models.matrices(), wanted, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(models.inverse, np.linalg.inv(wanted), rtol=1e-10, atol=1e-12)
    np.testing.assert_array_equal(models.inverse, models.inverse.transpose(0, 2, 1))
    x = rng.standard_normal((2, 4, D))
    found = models.lengths(np.array([2, 0]), x)
    np.testing.assert_allclose(found**2, np.einsum("wkd,wde,wke->wk", x, np.linalg.inv(wanted)[[2, 0]], x), rtol=1e-9)


def test_an_agent_alone_comes_to_the_same_bits():
    models = Spreads(N, D, RIDGE)
    seen = looked(np.random.default_rng(1), models, 2 * WAITING + 9)
    for agent, rows in enumerate(seen):
        alone = Spreads(1, D, RIDGE)
        for row in rows:
            alone.learn(np.zeros(1, dtype=np.int64), row[None])
        for name, array in alone.state().items():
            np.testing.assert_array_equal(array[0], models.state()[name][agent], err_msg=name)


def test_what_does_not_fit_is_refused():
    models = Spreads(N, D, RIDGE)
    with pytest.raises(ValueError, match="right dimension"):
        models.learn(np.arange(2), np.zeros((2, D + 1)))
    with pytest.raises(IndexError, match="outside"):
        models.learn(np.array([N]), np.zeros((1, D)))


@pytest.mark.parametrize(("n", "d"), [(1, 3), (2, 21), (5, 37)])
def test_means_and_copies_on_the_way_are_those_of_inverses_that_were_looked_at(n, d):
    """To the bit, some having learned since and others not; and nothing is taken off twice."""
    rng = np.random.default_rng(d)
    meaning, copying, looking = (Spreads(n, d, RIDGE) for _ in range(3))
    mean, copied, wanted = np.empty((d, d)), np.empty((n, d, d)), np.empty((d, d))
    for turn in range(5):
        who = np.arange(turn % n, n)
        x = rng.standard_normal((len(who), d))
        for models in (meaning, copying, looking):
            models.learn(who, x)
        meaning.mean_into(mean)
        copying.copy_into(copied)
        mean_of(looking.shown(np.arange(n)), wanted)
        np.testing.assert_array_equal(mean, wanted)
        np.testing.assert_array_equal(copied, looking.inverse)
    for models in (meaning, copying):
        np.testing.assert_array_equal(models.inverse, looking.inverse)
        np.testing.assert_array_equal(models.state()["inverse"], looking.state()["inverse"])
    with pytest.raises(ValueError, match="their shape"):
        meaning.mean_into(np.empty((d + 1, d + 1)))
    with pytest.raises(ValueError, match="shape of what is copied"):
        meaning.copy_into(np.empty((n + 1, d, d)))


def test_two_observations_in_a_row_are_both_taken_off():
    rng = np.random.default_rng(2)
    models, x = Spreads(1, D, RIDGE), rng.standard_normal((3, 1, D))
    for row in x:
        models.learn(np.array([0]), row)
    wanted = np.linalg.inv(sum(row.T @ row for row in x) + RIDGE * np.eye(D))
    np.testing.assert_allclose(models.state()["inverse"][0], wanted, rtol=1e-10)
