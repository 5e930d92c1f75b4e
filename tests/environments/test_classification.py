"""Tables as bandits: on made-up files of the published formats, and on the real ones where they are."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

from fedbandits.contract.errors import ConfigError
from fedbandits.contract.facts import Norms, Range
from fedbandits.data import tables
from fedbandits.data.tables import Table, magic, shuttle
from fedbandits.environments.classification import Classification, Magic, Shuttle, prepared

FIXTURES = Path(__file__).parents[1] / "fixtures"
REAL = os.environ.get("FEDBANDITS_DATA", "")
SEED = np.random.SeedSequence(3)


@pytest.fixture
def made_up(monkeypatch):
    monkeypatch.setenv("FEDBANDITS_DATA", str(FIXTURES))
    tables._joined.cache_clear()


@pytest.fixture
def table():
    rng = np.random.default_rng(0)
    return Table(rng.standard_normal((12, 3)), np.arange(12) % 4)


def test_files_of_both_separators_are_read(made_up):
    first, second = shuttle(), magic()
    assert first.features.shape == (60, 9)
    assert set(first.classes) == set(range(7))
    assert second.features.shape == (50, 10)
    words = [line.rsplit(",", 1)[1] for line in (FIXTURES / "uci" / "magic04.data").read_text().split()]
    np.testing.assert_array_equal(second.classes, [word == "h" for word in words])
    text = (FIXTURES / "uci" / "shuttle.trn").read_text().splitlines()
    np.testing.assert_array_equal(first.features, [[float(x) for x in line.split()[:-1]] for line in text])
    np.testing.assert_array_equal(first.classes + 1, [int(line.split()[-1]) for line in text])


def test_rows_for_testing_come_last(tmp_path, monkeypatch):
    (tmp_path / "uci").mkdir()
    (tmp_path / "uci" / "shuttle.trn").write_text("1,2,1\n3,4,10\n")
    (tmp_path / "uci" / "shuttle.tst").write_text("5 6 2\n")
    monkeypatch.setenv("FEDBANDITS_DATA", str(tmp_path))
    found = shuttle()
    np.testing.assert_array_equal(found.features, [[1, 2], [3, 4], [5, 6]])
    np.testing.assert_array_equal(found.classes, [0, 2, 1])  # ranks of numbers, not of words


@pytest.mark.parametrize("text", ["1,2,x\n3,,y\n", "1,b,x\n3,4,y\n", "x\ny\n"])
def test_other_files_are_refused_by_name(text, tmp_path, monkeypatch):
    (tmp_path / "uci").mkdir()
    (tmp_path / "uci" / "magic04.data").write_text(text)
    monkeypatch.setenv("FEDBANDITS_DATA", str(tmp_path))
    with pytest.raises(ConfigError, match=r"magic04\.data: not in the published format"):
        magic()


@pytest.mark.parametrize(
    ("features", "classes", "match"),
    [
        (np.full((2, 2), np.nan), np.array([0, 1]), "features: must be a finite"),
        (np.ones((2, 2)), np.array([0, 1, 1]), "classes: must be one whole number for each of 2 rows"),
        (np.ones((2, 2)), np.array([0.0, 1.0]), "classes: must be one whole number"),
        (np.ones((2, 2)), np.array([0, 2]), "classes: must be 0..K-1"),
        (np.ones((2, 2)), np.array([0, 0]), "at least two of them"),
    ],
)
def test_tables_that_are_none_are_refused(features, classes, match):
    with pytest.raises(ConfigError, match=match):
        Table(features, classes)


@pytest.mark.parametrize("contexts", ["standardised", "unit"])
def test_arms_are_the_case_in_the_block_of_their_class(table, contexts):
    world = Classification(table=table, clients=3, contexts=contexts).world(20, SEED)
    cases = prepared(table.features, contexts)
    halves = 2 if contexts == "unit" else 1
    assert (world.problem.dim, world.problem.arms) == (halves * 12, 4)
    seen = [set() for _ in range(3)]
    for step in range(20):
        turn = world.turn(step)
        paid = np.stack([world.pay(step, np.full(3, k)).rewards for k in range(4)], axis=1)
        np.testing.assert_array_equal(paid.sum(axis=1), 1.0)
        for agent in range(3):
            blocks = turn.arms[agent].reshape(4, halves, 4, 3)
            own = np.abs(blocks).sum(axis=(1, 3)).argmax(axis=1)
            assert sorted(own) == [0, 1, 2, 3]
            x = blocks[np.arange(4), :, own]
            np.testing.assert_array_equal(x, np.broadcast_to(x[0, 0], x.shape))
            assert np.count_nonzero(blocks) == np.count_nonzero(x)
            (case,) = np.flatnonzero((np.abs(cases / np.sqrt(halves) - x[0, 0]) < 1e-12).all(axis=1))
            assert own[paid[agent].argmax()] == table.classes[case]
            if step < 12:
                assert case not in seen[agent]
            seen[agent].add(case)
    assert all(len(cases) == 12 for cases in seen)


def test_places_tell_nothing(table):
    world = Classification(table=table, clients=50).world(40, SEED)
    wins = sum(world.pay(step, np.zeros(50, dtype=np.int64)).rewards.sum() for step in range(40))
    assert wins / 2000 == pytest.approx(0.25, abs=5 * np.sqrt(0.25 * 0.75 / 2000))


def test_agents_have_orders_of_their_own(table):
    world = Classification(table=table, clients=2).world(12, SEED)
    orders = world._cases
    assert (orders[0] != orders[1]).any()
    other = Classification(table=table, clients=1).world(12, SEED)
    np.testing.assert_array_equal(other._cases[0], orders[0])  # whoever else is there


def test_preparing_is_that_of_the_publication():
    rng = np.random.default_rng(1)
    raw = np.hstack([rng.gamma(2.0, size=(200, 4)), np.zeros((200, 1))])
    found = prepared(raw, "standardised")
    np.testing.assert_allclose(found.mean(axis=0), 0, atol=1e-12)
    np.testing.assert_allclose(found.std(axis=0)[:4], 1)
    rows = raw / np.linalg.norm(raw, axis=1)[:, None]
    np.testing.assert_allclose(found[:, 0], (rows[:, 0] - rows[:, 0].mean()) / rows[:, 0].std())
    np.testing.assert_array_equal(found[:, 4], 0)
    np.testing.assert_allclose(np.linalg.norm(prepared(raw, "unit"), axis=1), 1)


def test_what_is_told_holds(made_up):
    for environment in (Shuttle(clients=4), Magic(clients=4, contexts="unit")):
        world = environment.world(30, SEED)
        longest = world.problem.get(Norms).arms
        lengths = [np.linalg.norm(world.turn(step).arms, axis=2).max() for step in range(30)]
        assert max(lengths) <= longest * (1 + 1e-12)
        assert max(lengths) > 0.5 * longest
        assert world.problem.get(Range) == Range(0.0, 1.0)


@pytest.mark.skipif(not (Path(REAL) / "uci").is_dir(), reason="FEDBANDITS_DATA names no folder with uci")
def test_the_real_tables_are_those_of_the_publication(monkeypatch):
    monkeypatch.setenv("FEDBANDITS_DATA", REAL)
    tables._joined.cache_clear()
    first, second = shuttle(), magic()
    assert first.features.shape[1] == 9
    counts = np.bincount(first.classes)
    assert len(counts) == 7
    if len(first.classes) == 43_500:
        assert counts.tolist() == [34_108, 37, 132, 6_748, 2_458, 6, 11]
    assert second.features.shape == (19_020, 10)
    assert sorted(np.bincount(second.classes)) == [6_688, 12_332]
