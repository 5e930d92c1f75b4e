"""Differences of low rank, and inverses that follow them, against dense computation."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedbandits.linalg.low_rank import add_to_inverse, factor_of_difference, follow, write_square
from fedbandits.linalg.recycled import Recycled, is_sealed, sealed


def grams(seed, d, before, more, size=1.0):
    rng = np.random.default_rng(seed)
    old, new = rng.standard_normal((before, d)), size * rng.standard_normal((more, d))
    return old.T @ old, old.T @ old + new.T @ new


@given(
    st.integers(0, 10**6), st.integers(1, 40), st.integers(0, 200), st.integers(0, 6), st.sampled_from([0.01, 1, 30])
)
@settings(max_examples=60, deadline=None)
def test_few_observations_are_found_in_the_difference(seed, d, before, more, size):
    old, new = grams(seed, d, before, more, size)
    factor = factor_of_difference(old, new, 6)
    assert factor is not None
    assert len(factor) <= min(more, d)
    np.testing.assert_allclose(factor.T @ factor, new - old, atol=1e-12 * max(1.0, np.abs(new).max()))
    ridge = 0.3
    inverse = np.linalg.inv(old + ridge * np.eye(d))
    inverse = (inverse + inverse.T) / 2
    moment, theta = np.arange(1.0, d + 1), np.empty(d)
    grown = add_to_inverse(inverse, factor, moment, theta)
    wanted = np.linalg.inv(new + ridge * np.eye(d))
    np.testing.assert_allclose(inverse, wanted, rtol=1e-7, atol=1e-9)
    np.testing.assert_allclose(theta, inverse @ moment, rtol=1e-9, atol=1e-9)
    np.testing.assert_array_equal(inverse, inverse.T)
    logdets = [np.linalg.slogdet(gram + ridge * np.eye(d))[1] for gram in (old, new)]
    assert grown == pytest.approx(logdets[1] - logdets[0], rel=1e-7, abs=1e-8)


def test_what_is_no_sum_of_few_observations_has_no_factor():
    old, new = grams(3, 20, 50, 4)
    assert factor_of_difference(old, new, 3) is None
    assert factor_of_difference(new, old, 6) is None
    off = new.copy()
    off[2, 5] = off[5, 2] = off[2, 5] + 1e-6  # which no diagonal tells
    assert factor_of_difference(old, off, 6) is None
    for wrong in (np.nan, np.inf):
        off = new.copy()
        off[2, 5] = off[5, 2] = wrong
        assert factor_of_difference(old, off, 6) is None
        off[3, 3] = wrong
        assert factor_of_difference(old, off, 6) is None


def test_squares_are_outer_products():
    x, out = np.random.default_rng(0).standard_normal(7), np.empty((7, 7))
    write_square(x, out)
    np.testing.assert_array_equal(out, np.outer(x, x))


def test_room_is_used_again_unless_somebody_holds_it():
    room = Recycled()
    source = np.random.default_rng(0).standard_normal((4, 3))
    first = room.rows(source, np.array([2, 0]))
    np.testing.assert_array_equal(first, source[[2, 0]])
    view = first[1]
    place = first.__array_interface__["data"]
    del first
    second = room.rows(source, np.array([1, 3]))
    np.testing.assert_array_equal(view, source[0])
    assert second.__array_interface__["data"] != place
    place = second.__array_interface__["data"]
    del second
    assert room.empty((2, 3)).__array_interface__["data"] == place
    smaller = room.empty((1, 2))  # in the same room
    assert smaller.shape == (1, 2)
    assert smaller.__array_interface__["data"] == place
    assert room.empty((1, 2)).__array_interface__["data"] != place
    with pytest.raises(IndexError, match="rows 0 to 4 of 4"):
        room.rows(source, np.array([0, 4]))


def test_two_rooms_take_turns_while_the_last_result_is_held():
    rooms, held, places = Recycled(rooms=2), None, set()
    for number in range(6):
        room = rooms.empty((3, 3))
        room[:] = number
        if held is not None:
            np.testing.assert_array_equal(held, number - 1)
        held = sealed(room)[:1]
        places.add(room.__array_interface__["data"][0])
        del room
    assert len(places) == 2
    np.testing.assert_array_equal(rooms.empty((2,)).shape, (2,))


def test_what_can_still_be_written_to_is_not_sealed():
    room = np.zeros((2, 3))
    shown = np.broadcast_to(room, (4, 2, 3))
    assert not shown.flags.writeable
    assert not is_sealed(shown)
    sealed(room)
    assert is_sealed(shown)
    assert is_sealed(np.ndarray((4, 2, 3), room.dtype, room, strides=(0, *room.strides))[:1])


@pytest.mark.parametrize("d", [1, 5, 30, 241])
@pytest.mark.parametrize("more", [0, 1, 2, 5])
def test_an_inverse_that_follows_in_one_piece_has_the_same_bits(d, more):
    old, new = grams(7, d, 2 * d, more)
    ridge, moment = 0.3, np.arange(1.0, d + 1)
    start = np.linalg.inv(old + ridge * np.eye(d))
    start = (start + start.T) / 2
    wanted, theta, found, other = start.copy(), np.zeros(d), start.copy(), np.zeros(d)
    factor = factor_of_difference(old, new, 6)
    assert factor is not None
    grown = add_to_inverse(wanted, factor, moment, theta)
    assert follow(old, new, 6, found, moment, other) == grown
    np.testing.assert_array_equal(found, wanted)
    np.testing.assert_array_equal(other, theta)
    np.testing.assert_array_equal(found, found.T)
    np.testing.assert_allclose(found, np.linalg.inv(new + ridge * np.eye(d)), rtol=1e-7, atol=1e-9)


def test_nothing_follows_what_is_no_number_or_too_much():
    old, new = grams(3, 20, 50, 4)
    inverse, theta = np.linalg.inv(old + np.eye(20)), np.zeros(20)
    before, moment = inverse.copy(), np.ones(20)
    assert follow(old, new, 3, inverse, moment, theta) is None
    moment[4] = np.nan
    assert follow(old, new, 6, inverse, moment, theta) is None
    np.testing.assert_array_equal(inverse, before)
    assert not theta.any()
