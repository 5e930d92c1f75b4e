"""The catalogue, and building by name."""

from __future__ import annotations

import dataclasses

import pytest

from fedbandits.algorithms import ALGORITHMS, DisLinUCB
from fedbandits.contract.catalogue import ConfigError, build
from fedbandits.environments import ENVIRONMENTS, Linear


def algorithm(name, **parameters):
    return build(ALGORITHMS, name, parameters, "algorithm")


def environment(name, **parameters):
    return build(ENVIRONMENTS, name, parameters, "environment")


def test_by_name():
    assert algorithm("dislinucb", threshold=2) == DisLinUCB(threshold=2.0)
    assert environment("linear", clients=7, schedule="random") == Linear(clients=7, schedule="random")


def test_numbers_may_come_as_text():
    """As from a command line."""
    assert algorithm("dislinucb", threshold="2.5", ridge="0.1") == DisLinUCB(threshold=2.5, ridge=0.1)
    assert algorithm("dislinucb", threshold="theory").threshold == "theory"
    assert environment("linear", clients="7", pool="100").pool == 100


def test_an_unknown_name_gets_a_suggestion():
    with pytest.raises(ConfigError, match=r"unknown algorithm 'dislinusb'; did you mean 'dislinucb'\?"):
        algorithm("dislinusb")
    with pytest.raises(
        ConfigError, match=r"unknown environment 'xyz'; known are: .*linear, linear-bounded, linear-fixed"
    ):
        environment("xyz")


def test_an_unknown_parameter_gets_a_suggestion():
    with pytest.raises(ConfigError, match=r"dislinucb has no parameter 'treshold'; did you mean 'threshold'\?"):
        algorithm("dislinucb", treshold=1)
    with pytest.raises(ConfigError, match="linear has no parameter 'zzz'; it takes: clients, dim, "):
        environment("linear", zzz=1)
    with pytest.raises(ConfigError, match="random has no parameter 'x'; it takes: none"):
        algorithm("random", x=1)


@pytest.mark.parametrize(
    ("make", "name", "parameters", "expected"),
    [
        (algorithm, "independent-linucb", {"ridge": -1}, ["ridge", "greater than 0", "-1"]),
        (algorithm, "independent-linucb", {"delta": 2}, ["delta", "less than 1", "2"]),
        (algorithm, "dislinucb", {"threshold": "soon"}, ["threshold", "theory", "soon"]),
        (algorithm, "dislinucb", {"threshold": -1}, ["threshold", "greater than or equal to 0", "-1"]),
        (algorithm, "async-linucb", {"gamma_up": 0.5}, ["gamma_up", "greater than or equal to 1", "0.5"]),
        (environment, "linear", {"dim": -3}, ["dim", "greater than or equal to 1", "-3"]),
        (environment, "linear", {"dim": "many"}, ["dim", "integer", "many"]),
        (environment, "linear", {"arms": 30, "pool": 20}, ["pool=20", "arms=30", "raise pool or lower arms"]),
        (environment, "linear-shared", {"shared": 99}, ["shared=99", "dim=25"]),
    ],
)
def test_a_bad_value_names_the_field_and_the_fix(make, name, parameters, expected):
    with pytest.raises(ConfigError) as caught:
        make(name, **parameters)
    message = str(caught.value)
    assert message.startswith(f"{name}: ")
    for words in expected:
        assert words in message
    assert "pydantic" not in message
    assert "function-" not in message


def test_several_bad_values_are_all_named():
    with pytest.raises(ConfigError) as caught:
        environment("linear", dim=0, noise=-1)
    assert [line.split(":")[1].strip() for line in str(caught.value).splitlines()] == ["dim", "noise"]


@pytest.mark.parametrize("registry", [ALGORITHMS, ENVIRONMENTS], ids=["algorithms", "environments"])
def test_entries_are_complete(registry):
    """Known by the name they state; every word of the entry is filled in; a docstring says the formula."""
    for name, kind in registry.items():
        assert kind.about.name == name
        for item in dataclasses.fields(kind.about):
            if item.type == "str":
                assert getattr(kind.about, item.name).strip()
        assert len(kind.__doc__) > 60


@pytest.mark.parametrize("name", sorted(ALGORITHMS))
def test_every_algorithm_is_at_home_somewhere_and_frozen(name):
    entry = ALGORITHMS[name].about
    assert entry.environment in ENVIRONMENTS
    assert entry.topology in {"alone", "star", "graph"}
    assert (entry.wire == "nothing") == (entry.topology == "alone")
    one = algorithm(name)
    assert one == algorithm(name)
    assert hash(one) == hash(algorithm(name))
    for item in dataclasses.fields(one):
        with pytest.raises(dataclasses.FrozenInstanceError):
            setattr(one, item.name, None)
