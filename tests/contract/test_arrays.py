"""The checks at the door."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedbandits.contract.arrays import check_finite, check_who, decided, first_highest


@given(st.lists(st.integers(-2, 12), max_size=8))
def test_who_are_distinct_members(indices):
    fits = len(set(indices)) == len(indices) and all(0 <= i < 10 for i in indices)
    who = np.array(indices, dtype=np.int64)
    if fits:
        check_who(who, 10)
    else:
        with pytest.raises(ValueError, match="who"):
            check_who(who, 10)


def test_the_highest_score_wins_and_ties_go_to_the_lowest_index():
    scores = np.array([[1.0, 3.0, 3.0], [2.0, 2.0, 2.0], [-1.0, -2.0, 0.0]])
    assert first_highest(np.arange(3), scores).tolist() == [1, 0, 2]


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_what_is_not_finite_names_the_agents(value):
    rows = np.zeros((3, 2, 2))
    rows[1, 0, 1] = value
    with pytest.raises(ValueError, match=r"things of agents \[7\] are not finite"):
        check_finite("things", np.array([4, 7, 9]), rows)
    with pytest.raises(ValueError, match=r"agents \[7\]"):
        first_highest(np.array([4, 7, 9]), rows[:, 0])


def test_an_undecided_agent_is_an_error():
    who = np.array([4, 7, 9])
    assert decided(who, np.array([0, 2, 1])).tolist() == [0, 2, 1]
    assert decided(who[:0], np.array([], dtype=np.int64)).tolist() == []
    with pytest.raises(ValueError, match=r"arms of agents \[7\] are not finite"):
        decided(who, np.array([0, -1, 1]))
