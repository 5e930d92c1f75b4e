"""Persons: so many observations of each are used at an agent, and no more, whatever happens in between."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedbandits.privacy.persons import PersonCounts

VISITS = st.lists(st.tuples(st.integers(0, 2), st.integers(0, 3)), max_size=40)


@given(VISITS, st.integers(1, 4))
def test_the_first_observations_of_a_person_count(visits, most):
    counts, seen = PersonCounts(3), Counter()
    for agent, person in visits:
        (admitted,) = counts.admit(np.array([agent]), np.array([person]), most)
        assert admitted == (seen[agent, person] < most)
        seen[agent, person] += 1
    assert {(a, p): u for a, p, u in counts.table.tolist()} == {key: min(most, many) for key, many in seen.items()}


@given(VISITS)
def test_a_snapshot_forgets_nobody_and_a_share_is_an_agents_own(visits):
    counts, again, alone = PersonCounts(3), PersonCounts(3), PersonCounts(1)
    for agent, person in visits:
        counts.admit(np.array([agent]), np.array([person]), 2)
    again.load(counts.state())
    np.testing.assert_array_equal(again.table, counts.table)
    alone.load(counts.share(1))
    assert {(p, u) for _, p, u in alone.table.tolist()} == {(p, u) for a, p, u in counts.table.tolist() if a == 1}


@pytest.mark.parametrize("table", [[[0, 5]], [[0, 5, 0]], [[3, 5, 1]], [[-1, 5, 1]], [[0, 5, 1], [0, 5, 2]]], ids=str)
def test_a_table_that_cannot_be_is_refused(table):
    counts = PersonCounts(3)
    counts.admit(np.array([2]), np.array([7]), 4)
    with pytest.raises(ValueError, match="table"):
        counts.load({"table": np.array(table, dtype=np.int64)})
    np.testing.assert_array_equal(counts.table, [[2, 7, 1]])
