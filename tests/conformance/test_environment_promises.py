"""Every environment keeps every promise of the contract; those on data are tried on made-up files of their format."""

from __future__ import annotations

from pathlib import Path

import pytest

from conformance.subjects import small
from fedbandits.environments import ENVIRONMENTS
from fedbandits.testing import check_environment

FIXTURES = Path(__file__).parents[1] / "fixtures"
ON_DATA = {
    "lastfm": {"min_events": 5, "dim": 4, "arms": 4},
    "movielens": {"variant": "100k", "min_events": 6, "dim": 3, "arms": 4},
    "shuttle": {"clients": 3},
    "magic": {"clients": 3, "contexts": "unit", "stragglers": 0.5, "presence": 0.4},
    "clustered-classes": {"clients": 3, "arms": 5, "constant": True},
}
TABLES = ("shuttle", "magic", "clustered-classes")
"""Of which there are cases for any number of agents; of logs there are events of their users."""


@pytest.mark.parametrize("name", sorted(ENVIRONMENTS.keys() - ON_DATA.keys()))
def test_promises_of(name):
    check_environment(ENVIRONMENTS[name](**small().get(name, {})))


@pytest.mark.parametrize("name", sorted(name for name in small() if hasattr(ENVIRONMENTS[name], "stragglers")))
def test_promises_where_agents_come_and_go(name):
    check_environment(ENVIRONMENTS[name](**small().get(name, {}), stragglers=0.5, presence=0.4))


@pytest.mark.parametrize("schedule", ["round-robin", "random"])
@pytest.mark.parametrize("name", sorted(name for name in small() if hasattr(ENVIRONMENTS[name], "schedule")))
def test_promises_where_one_agent_is_awake_at_a_time(name, schedule):
    check_environment(ENVIRONMENTS[name](**small().get(name, {}), schedule=schedule))


@pytest.mark.parametrize(
    ("name", "schedule"),
    [(name, schedule) for name in sorted(ON_DATA) for schedule in ("all", "random" if name in TABLES else "one")],
)
def test_promises_on_data(name, schedule, monkeypatch):
    monkeypatch.setenv("FEDBANDITS_DATA", str(FIXTURES))
    check_environment(ENVIRONMENTS[name](**ON_DATA[name], schedule=schedule), horizon=5)
