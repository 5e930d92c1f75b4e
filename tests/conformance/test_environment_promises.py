"""Every environment that needs no data keeps every promise of the contract."""

from __future__ import annotations

import pytest

from conformance.subjects import small
from fedbandits.environments import ENVIRONMENTS
from fedbandits.testing import check_environment

ON_DATA = {"lastfm", "movielens"}
"""Held to the same in `tests/environments`, on data of their own."""


@pytest.mark.parametrize("name", sorted(ENVIRONMENTS.keys() - ON_DATA))
def test_promises_of(name):
    check_environment(ENVIRONMENTS[name](**small().get(name, {})))


@pytest.mark.parametrize("name", sorted(small()))
def test_promises_where_agents_come_and_go(name):
    check_environment(ENVIRONMENTS[name](**small().get(name, {}), stragglers=0.5, presence=0.4))


@pytest.mark.parametrize("schedule", ["round-robin", "random"])
@pytest.mark.parametrize("name", sorted(small()))
def test_promises_where_one_agent_is_awake_at_a_time(name, schedule):
    check_environment(ENVIRONMENTS[name](**small().get(name, {}), schedule=schedule))
