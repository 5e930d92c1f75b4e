"""What may be known of a problem: sizes, and facts that are found by their types."""

from __future__ import annotations

import dataclasses
import json
import math
import pickle
from typing import ClassVar

import networkx as nx
import pytest
from hypothesis import given
from hypothesis import strategies as st

import fedbandits as fb
from fedbandits.contract.catalogue import About
from fedbandits.contract.facts import (
    FACTS,
    RKHS,
    AgentFeatures,
    Candidates,
    Contamination,
    Episodes,
    Fact,
    Game,
    Link,
    Moment,
    Noise,
    Norms,
    Place,
    Range,
    Shared,
    Truth,
)
from fedbandits.contract.parameters import value
from fedbandits.contract.problem import Problem

SIZES = Problem(agents=3, dim=5, arms=10, horizon=100)
sizes_of_things = st.floats(0, 1e6)
TOLD = {
    "noise": st.builds(Noise, sizes_of_things),
    "norms": st.builds(Norms, sizes_of_things, sizes_of_things),
    "link": st.builds(Link, st.sampled_from(["logistic", "probit", "poisson", "identity"])),
    "shared": st.builds(Shared, st.integers(1, 10**6)),
    "moment": st.builds(Moment, st.floats(1, 2, exclude_min=True), sizes_of_things, sizes_of_things),
    "contamination": st.builds(Contamination, st.floats(0, 1, exclude_max=True)),
    "rkhs": st.builds(
        lambda scales, bound, additive, low, extent: RKHS(scales, bound, additive, low, low + extent),
        st.floats(1e-3, 1e3) | st.lists(st.floats(1e-3, 1e3), min_size=1, max_size=4).map(tuple),
        st.floats(1e-3, 1e3),
        st.booleans(),
        st.floats(-1e3, 1e3),
        st.floats(1e-3, 1e3),
    ),
    "agent_features": st.integers(1, 3).flatmap(
        lambda size: st.lists(st.tuples(*[st.floats(-1e6, 1e6)] * size), min_size=1, max_size=4).map(
            lambda rows: AgentFeatures(tuple(rows))
        )
    ),
    "candidates": st.lists(st.tuples(*[st.floats(-1e6, 1e6)] * 2), min_size=1, max_size=4, unique=True).map(
        lambda rows: Candidates(tuple(rows))
    ),
    "episodes": st.builds(Episodes, st.integers(1, 10**6)),
    "game": st.builds(
        Game,
        st.integers(1, 100),
        st.none() | st.integers(1, 4).map(lambda m: tuple(tuple(range(m)) for _ in range(m))),
        st.none() | st.tuples(st.integers(1, 9), st.integers(1, 9)),
    ),
    "range": st.tuples(st.floats(-1e6, 1e6), st.floats(1e-3, 1e6)).map(lambda pair: Range(pair[0], sum(pair))),
}
facts = st.sampled_from(sorted(FACTS)).flatmap(lambda name: TOLD[name])


def test_every_fact_that_files_may_tell_is_tried_here():
    """A new one needs a strategy in this module."""
    assert TOLD.keys() == FACTS.keys()
    assert {kind.name: kind for kind in FACTS.values()} == FACTS


# --- as configuration files have them


@given(facts)
def test_a_fact_is_read_from_what_it_writes(fact):
    kind = FACTS[fact.name]
    assert kind.read(fact.plain()) == fact
    assert kind.read(json.loads(json.dumps(fact.plain(), allow_nan=False))) == fact
    assert kind.read(list(fact.plain().values())) == fact
    assert kind.read(fact) is fact
    assert pickle.loads(pickle.dumps(fact)) == fact
    assert hash(kind.read(fact.plain())) == hash(fact)


@given(facts.filter(lambda fact: len(fact.plain()) == 1))
def test_the_only_field_needs_no_name(fact):
    (told,) = fact.plain().values()
    assert FACTS[fact.name].read(told) == fact


def test_as_people_write_them():
    assert Noise.read(0.5) == Noise.read([0.5]) == Noise.read({"sigma": 0.5}) == Noise(sigma=0.5)
    assert Range.read([0, 1]) == Range(low=0.0, high=1.0)
    assert Link.read("logistic") == Link("logistic")
    assert Noise.read({}) == Noise()


@pytest.mark.parametrize(
    ("kind", "told", "complaint"),
    [
        (Noise, -1, "noise: sigma: must be greater than or equal to 0 (got -1)"),
        (Noise, math.inf, "noise: sigma: must be a finite number (got inf)"),
        (Noise, "much", "noise: sigma: must be a valid number (got 'much')"),
        (Noise, {"sgima": 1}, "noise has no parameter 'sgima'; did you mean 'sigma'?"),
        (Noise, [1, 2], "noise takes at most 1 without names (sigma); write Noise(sigma=1)"),
        (Norms, {"arms": math.nan}, "norms: arms: must be a finite number (got nan)"),
        (Link, "log", "link: function: must be 'logistic', 'probit', 'poisson' or 'identity' (got 'log')"),
        (Shared, 0, "shared: coordinates: must be greater than or equal to 1 (got 0)"),
        (Moment, [1, 1, 1], "moment: order: must be greater than 1 (got 1)"),
        (Moment, [2, math.inf, 1], "moment: raw: must be a finite number (got inf)"),
        (Moment, {"order": 2}, "moment: raw: field required\nmoment: central: field required"),
        (Contamination, 1, "contamination: share: must be less than 1 (got 1)"),
        (Range, 1, "range: high: field required"),
        (Range, [1, 1], "range: low must be below high (got low=1, high=1)"),
        (Range, [0, math.inf], "range: high: must be a finite number (got inf)"),
    ],
)
def test_what_cannot_be_known_is_refused_by_name_field_and_fix(kind, told, complaint):
    with pytest.raises(fb.ConfigError) as caught:
        kind.read(told)
    assert str(caught.value) == complaint


def test_a_field_is_not_given_twice():
    with pytest.raises(fb.ConfigError, match="noise: sigma is given twice, by its place and by its name"):
        Noise(0.5, sigma=0.5)


def test_facts_are_frozen():
    with pytest.raises(dataclasses.FrozenInstanceError):
        Noise(0.5).sigma = 1.0


# --- problems


def test_facts_are_found_by_type():
    problem = SIZES.knowing(Noise(0.5), Range(-3, 1))
    assert problem.get(Noise) == Noise(0.5)
    assert problem.get(Noise, Noise()).sigma == 0.5
    assert problem.get(Norms) is None
    assert problem.get(Norms, Norms(parameter=2.0)) == Norms(2.0, 1.0)
    assert problem.get(Range).largest == 3.0
    assert SIZES.facts == ()


def test_what_is_told_anew_takes_the_place_of_what_was():
    problem = SIZES.knowing(Noise(0.5), Range(0, 1)).knowing(Noise(0.1), Shared(2))
    assert problem.facts == (Noise(0.1), Range(0, 1), Shared(2))
    assert problem.knowing() == problem
    assert SIZES.knowing(Noise(1.0), Noise(2.0)).facts == (Noise(2.0),)


def test_what_is_known_can_be_left_out():
    problem = SIZES.knowing(Noise(0.5), Range(0, 1), Shared(2))
    assert problem.without(Range, Moment).facts == (Noise(0.5), Shared(2))
    assert problem.without(Noise, Range, Shared) == SIZES
    assert problem.without() == problem


def test_nothing_is_told_twice():
    with pytest.raises(fb.ConfigError, match="facts: noise is told twice; leave one out"):
        Problem(agents=1, dim=1, arms=1, horizon=1, facts=(Noise(0.1), Range(0, 1), Noise(0.1)))


def test_what_is_needed_is_there_or_missed_by_name():
    about = fb.algorithms.AsyncLinUCBAM.about
    assert SIZES.knowing(Shared(2)).need(Shared, by=about) == Shared(2)
    with pytest.raises(fb.ConfigError) as caught:
        SIZES.need(Shared, by=about)
    assert str(caught.value) == (
        "async-linucb-am: needs to know the fact 'shared', which nobody has told; use an environment that tells it, "
        "such as 'linear-shared'; a deployed agent is told by facts=[Shared(...)]"
    )


def test_an_oracle_without_the_truth_says_what_it_lacks():
    with pytest.raises(fb.ConfigError, match=r"oracle-clusters: .*no clusters.*use one such as clustered-linear"):
        fb.simulate(fb.algorithms.OracleClusters(), fb.environments.Linear(clients=2, dim=2, arms=2), 2)


@pytest.mark.parametrize("fact", [Place(nx.path_graph(3), 2), Truth((0, 0, 1))], ids=["place", "truth"])
def test_problems_move_between_processes(fact):
    problem = SIZES.knowing(Noise(0.5), fact)
    again = pickle.loads(pickle.dumps(problem))
    assert again.without(Place) == problem.without(Place)
    assert (again.get(Place) is None) == (problem.get(Place) is None)
    if isinstance(fact, Place):
        assert nx.utils.graphs_equal(again.get(Place).graph, fact.graph)
        assert again.get(Place).hops == 2


def test_no_file_tells_the_place_or_the_truth():
    assert {"place", "truth"}.isdisjoint(FACTS)


@value
class Weather(Fact):
    """A fact of somebody else's family."""

    name: ClassVar[str] = "weather"

    rain: float
    wind: float = 0.0


@value
class Storm(Weather):
    """A kind of its own, although it derives from another."""

    name: ClassVar[str] = "storm"


def test_a_fact_of_ones_own_needs_nothing_else():
    problem = SIZES.knowing(Weather(0.5), Storm(1.0))
    assert problem.get(Weather) == Weather.read([0.5, 0.0])
    assert problem.get(Storm) == Storm(1.0)
    assert problem.without(Weather).get(Weather) is None
    assert Weather.read(Weather(0.5).plain()) == Weather(0.5)
    assert pickle.loads(pickle.dumps(problem)) == problem
    about = About("x", "f", "alone", "never", (), "none", "none", environment="outside")
    with pytest.raises(fb.ConfigError, match=r"x: needs to know the fact 'weather'.*such as 'outside'"):
        SIZES.need(Weather, by=about)
    with pytest.raises(fb.ConfigError, match=r"weather has no parameter 'wnd'; did you mean 'wind'\?"):
        Weather(rain=1.0, wnd=2.0)


def test_there_are_as_many_lengthscales_as_coordinates():
    assert RKHS(0.5).scales(3) == (0.5, 0.5, 0.5)
    assert RKHS((0.5, 2.0)).scales(2) == (0.5, 2.0)
    with pytest.raises(ValueError, match="rkhs: 2 lengthscales are told for arms of dimension 3"):
        RKHS((0.5, 2.0)).scales(3)
    for bad in ({"lengthscales": ()}, {"lengthscales": 0.0}, {"lengthscales": 1.0, "low": 1.0, "high": 1.0}):
        with pytest.raises(fb.ConfigError, match="rkhs"):
            RKHS(**bad)
