"""Hashed numbers are Threefry's, and normal."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from scipy import stats

from fedbandits.linalg import directions
from fedbandits.linalg import hashed as parts
from fedbandits.linalg.hashed import room_for_normals
from fedbandits.linalg.jit import jit


@jit
def hashed(k0, k1, x0, x1):
    return parts.hashed(k0, k1, x0, x1)


@jit
def hashed_normals(k0, k1, salt, room):
    parts.hashed_normals(k0, k1, salt, room)


@jit
def unit_lanes(normals, scale, theta, own, lanes, means, row):
    directions.unit_lanes(normals, scale, theta, own, lanes, means, row)


WORD = np.uint32


def normals(count, key=(1, 2), salt=3):
    room = room_for_normals(count)
    hashed_normals(WORD(key[0]), WORD(key[1]), WORD(salt), room)
    return room.normals[:count]


@pytest.mark.parametrize(
    ("key", "counter", "known"),
    [
        ((0, 0), (0, 0), (0x9D1C5EC6, 0x8BD50731)),
        ((2**32 - 1,) * 2, (2**32 - 1,) * 2, (0xFD36D048, 0x2D17272C)),
        ((0x13198A2E, 0x03707344), (0x243F6A88, 0x85A308D3), (0xBA3E4725, 0xF27D669E)),
    ],
)
def test_words_are_those_of_threefry(key, counter, known):
    """The known answers that come with the publication's code, for 13 rounds."""
    assert hashed(*map(WORD, key), *map(WORD, counter)) == known


def test_normals_are_box_and_muller_s():
    m = 2**16
    room = room_for_normals(2 * m)
    hashed_normals(WORD(5), WORD(6), WORD(7), room)
    radius = np.sqrt(-2 * np.log(((room.first >> WORD(1)) + 0.5) / 2**31))
    one, other = room.normals[:m], room.normals[m:]
    np.testing.assert_allclose(np.hypot(one, other), radius, rtol=1e-5, atol=3e-5)
    # the quarters of the circle are taken in another order
    turn = room.second / 2**32
    quarter = np.floor(turn * 4 + 0.5) % 4
    angle = 2 * np.pi * (turn - np.floor(turn * 4 + 0.5) / 4)
    sign = np.where(quarter >= 2, -1.0, 1.0)
    odd = quarter % 2 == 1
    far = radius > 1e-2
    np.testing.assert_allclose(one[far], (radius * sign * np.where(odd, np.sin(angle), np.cos(angle)))[far], atol=2e-5)
    np.testing.assert_allclose(
        other[far], (radius * sign * np.where(odd, np.cos(angle), np.sin(angle)))[far], atol=2e-5
    )


def test_normals_have_the_moments_and_the_law_of_normals():
    x = normals(2**20)
    n = len(x)
    for power, mean, variance in ((1, 0, 1), (2, 1, 2), (3, 0, 15), (4, 3, 96), (6, 15, 10395 - 225)):
        assert abs((x**power).mean() - mean) < 4.5 * np.sqrt(variance / n)
    assert stats.kstest(x, "norm").pvalue > 1e-3
    # uniformly spread over cells, pairs of neighbours as well
    cells = np.floor(32 * stats.norm.cdf(x)).astype(int)
    assert stats.chisquare(np.bincount(cells, minlength=32)).pvalue > 1e-4
    pairs = 32 * cells[0::2] + cells[1::2]
    assert stats.chisquare(np.bincount(pairs, minlength=1024)).pvalue > 1e-4
    assert (np.abs(x) > 4).sum() == pytest.approx(2 * n * stats.norm.sf(4), abs=5 * np.sqrt(2 * n * stats.norm.sf(4)))


def test_bits_of_words_are_fair_and_each_depends_on_every_bit_of_key_and_counter():
    rng = np.random.default_rng(0)
    given = rng.integers(2**32, size=(400, 4), dtype=np.uint32)
    found = np.array([hashed(*row) for row in given])
    for place, bit in itertools.product(range(4), range(0, 32, 3)):
        other = given.copy()
        other[:, place] ^= WORD(1 << bit)
        flipped = found ^ np.array([hashed(*row) for row in other])
        share = np.unpackbits(flipped.astype(np.uint32).view(np.uint8)).mean()
        assert share == pytest.approx(0.5, abs=5 * 0.5 / np.sqrt(400 * 64))


def test_streams_of_neighbouring_keys_are_uncorrelated():
    rows = np.array([normals(4096, key=(k, 9), salt=s) for k in range(12) for s in range(2)])
    apart = np.corrcoef(np.vstack([rows, rows**2]))[np.triu_indices(48, 1)]
    assert np.abs(apart).max() < 5 / np.sqrt(4096)
    lagged = [np.corrcoef(rows.ravel()[:-lag], rows.ravel()[lag:])[0, 1] for lag in (1, 2, 3, 8, 16, 64, 2048)]
    assert np.abs(lagged).max() < 5 / np.sqrt(rows.size)


@pytest.mark.slow
def test_normals_pass_where_ten_million_are_looked_at():
    x = np.concatenate([normals(1000, key=(k, 1)) for k in range(10_000)])
    assert stats.kstest(x, "norm").pvalue > 1e-3
    cells = np.floor(1024 * stats.norm.cdf(x)).astype(int)
    assert stats.chisquare(np.bincount(cells, minlength=1024)).pvalue > 1e-4
    by_place = x.reshape(10_000, 1000)
    spread = by_place.mean(axis=0) * 100
    assert stats.kstest(spread, "norm").pvalue > 1e-4
    # gaps between visits to one cell, and runs up, are those of independent numbers
    gaps = np.diff(np.flatnonzero(cells < 32))
    most = 200
    chances = (1 / 32) * (31 / 32) ** np.arange(most)
    counted = np.bincount(np.minimum(gaps, most + 1), minlength=most + 2)[1:]
    assert stats.chisquare(counted, len(gaps) * np.append(chances, 1 - chances.sum())).pvalue > 1e-4
    triples = (cells[: 3 * (len(cells) // 3)] // 128).reshape(-1, 3)
    assert stats.chisquare(np.bincount(triples @ [64, 8, 1], minlength=512)).pvalue > 1e-4


@pytest.mark.parametrize("arms", [1, 2, 3, 4, 5, 7, 8, 10, 12, 13, 23, 25])
def test_unit_lanes_are_unit_vectors_and_their_scores(arms):
    rng = np.random.default_rng(arms)
    z, scale, theta = rng.standard_normal((6, arms)), rng.random(6) + 0.5, rng.standard_normal((3, 6))
    lanes, means = np.full((2, 6, arms), np.nan), np.full((2, arms), np.nan)
    unit_lanes(z.ravel(), scale, theta, 2, lanes, means, 1)
    x = scale[:, None] * z
    np.testing.assert_allclose(lanes[1], x / np.linalg.norm(x, axis=0), rtol=1e-14)
    np.testing.assert_allclose(means[1], theta[2] @ lanes[1], rtol=1e-12, atol=1e-14)
    assert np.isnan(lanes[0]).all()
    assert np.isnan(means[0]).all()
