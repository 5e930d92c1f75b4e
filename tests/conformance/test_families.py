"""Every family has its file, and no file speaks of what there is not."""

from __future__ import annotations

import dataclasses

import pytest

from conformance.subjects import FAMILIES, NAMES, REGISTRY, about, confident, family, talkative
from conformance.typical import PLAYING, TYPICAL
from fedbandits.environments import ENVIRONMENTS
from fedbandits.testing.suite import PROMISES


@pytest.mark.parametrize("name", NAMES)
def test_its_family_has_a_file(name):
    called = about(name).family
    assert called in FAMILIES, (
        f"{name} is of the family {called!r}: say in tests/conformance/families/{called}.py how its algorithms are "
        "made small, talkative, silent and confident"
    )


@pytest.mark.parametrize("called", FAMILIES)
def test_a_file_speaks_of_its_own_family_alone(called):
    said = family(called)
    settings = (said.talkative, said.silent, said.constant, said.affordable, said.excused, said.path_dependent)
    for name in {name for setting in settings for name in setting}:
        assert about(name).family == called
    assert said.small.keys() <= ENVIRONMENTS.keys()
    for promises in said.excused.values():
        assert promises.keys() <= PROMISES.keys()


@pytest.mark.parametrize("name", NAMES)
def test_settings_are_those_of_the_algorithm(name):
    said = family(about(name).family)
    for parameters in (said.talkative.get(name, {}), said.silent.get(name, {})):
        assert parameters.keys() <= {item.name for item in dataclasses.fields(REGISTRY[name])}
    if about(name).says:
        for parameters in confident(name):
            assert talkative(name, **parameters) is not None


def test_somebody_stands_for_each_kind():
    """Whoever is the first of a family, or of a topology with or without privacy, is tried by `make test`: name it in
    `typical`.
    """

    def kinds(names):
        of = [about(name) for name in names]
        return {one.family for one in of} | {(one.topology, one.private) for one in of}

    assert set(NAMES) >= TYPICAL >= PLAYING
    assert {about(name).topology for name in PLAYING} == {about(name).topology for name in NAMES}
    assert kinds(TYPICAL) == kinds(NAMES)
