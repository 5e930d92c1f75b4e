"""Entries in the catalogue that depend on parameters."""

from __future__ import annotations

import pickle
from dataclasses import replace
from typing import Annotated, ClassVar

import cloudpickle
import pytest
from pydantic import Field

from fedbandits.algorithms import ALGORITHMS, Random
from fedbandits.contract.catalogue import About, ConfigError, Registry, build
from fedbandits.contract.depending import depending
from fedbandits.contract.description import describe
from fedbandits.contract.parameters import called, parameters


def by_schedule(self: Periodic, default: About) -> About:
    return default if self.every is None else replace(default, calls="scheduled")


@parameters
class Periodic(Random):
    """Calls by data, or by a schedule."""

    every: Annotated[int, Field(ge=1)] | None = None

    about: ClassVar[About] = depending(replace(Random.about, name="periodic", calls="data"), by_schedule)


@parameters
class Plain(Periodic):
    """Its entry is the same, whatever its parameters."""

    about: ClassVar[About] = replace(Periodic.about, name="plain")


def test_a_class_has_the_entry_of_the_default_and_an_instance_its_own():
    assert Periodic.about.calls == Periodic().about.calls == "data"
    assert Periodic.about is Periodic().about
    assert Periodic(every=5).about == replace(Periodic.about, calls="scheduled")
    assert Plain(every=5).about is Plain.about


def test_it_is_found_and_called_by_the_name_of_the_default():
    held = Registry("algorithm", "none", (Periodic,), ("agents", "server"))
    assert held.find("periodic") is Periodic
    assert held.about("periodic") is Periodic.about
    assert held.name_of(Periodic) == called(Periodic) == "periodic"
    made = build(held, "periodic", {"every": "7"}, "algorithm")
    assert made == Periodic(every=7)
    assert describe(made) == {"name": "periodic", "every": 7}
    with pytest.raises(ConfigError, match="periodic: every: must be greater than or equal to 1"):
        Periodic(every=0)


def test_it_moves_between_processes():
    """By reference, and with its class, as one that was written in a script."""

    @parameters
    class Written(Periodic):
        """Known here alone."""

    one = Periodic(every=3)
    assert pickle.loads(pickle.dumps(one)).about == one.about
    moved = pickle.loads(cloudpickle.dumps(Written(every=3)))
    assert moved.about.calls == "scheduled"
    assert type(moved).about.calls == "data"


@pytest.mark.parametrize("name", sorted(ALGORITHMS))
def test_the_catalogue_lists_what_the_default_does(name):
    kind = ALGORITHMS[name]
    assert kind().about == kind.about
