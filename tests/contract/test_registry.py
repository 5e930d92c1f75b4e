"""Classes by name: built in, offered by installed packages, or at an address."""

from __future__ import annotations

import itertools
import re
import sys
import textwrap
from dataclasses import dataclass

import pydantic.dataclasses
import pytest

import fedbandits as fb
from fedbandits.algorithms import ALGORITHMS, DisLinUCB
from fedbandits.contract.catalogue import AboutEnvironment, ConfigError, Registry, build
from fedbandits.environments import ENVIRONMENTS
from fedbandits.graphs.topologies import NETWORKS

GROUP = "fedbandits.tests"
SOUND = """
    from fedbandits.contract.catalogue import AboutEnvironment

    class Moving:
        about = AboutEnvironment("moving", "own", "it moves", "nowhere")

        def __init__(self, speed=1):
            self.speed = speed

        def world(self, horizon, seed):
            ...

        class Inner:
            about = AboutEnvironment("inner", "own", "inside another", "nowhere")

            def world(self, horizon, seed):
                ...

    class Other(Moving):
        about = AboutEnvironment("other", "own", "it moves otherwise", "nowhere")

    class Lacking:
        pass

    class Nameless:
        def world(self, horizon, seed):
            ...

    number = 3
"""
_numbers = itertools.count()


class Still:
    about = AboutEnvironment("still", "own", "nothing moves", "nowhere")

    def world(self, horizon, seed): ...


class Calm(Still):
    about = AboutEnvironment("calm", "own", "nothing moves either", "nowhere")


def registry(*kinds):
    """One that has not looked for installed packages yet."""
    return Registry("environment", GROUP, kinds or (Still, Calm), needs=("world",))


@pytest.fixture
def path(monkeypatch):
    """What is imported in a test, and where from, is forgotten after it."""
    monkeypatch.setattr(sys, "path", list(sys.path))
    before = set(sys.modules)
    yield
    for name in set(sys.modules) - before:
        del sys.modules[name]


@pytest.fixture
def module(tmp_path, monkeypatch, path):
    """Write a module that nobody has imported yet, in the directory where the program is started; returns its name."""
    monkeypatch.chdir(tmp_path)

    def write(content=SOUND):
        name = f"my_module_{next(_numbers)}"
        (tmp_path / f"{name}.py").write_text(textwrap.dedent(content))
        return name

    return write


@pytest.fixture
def install(tmp_path, path):
    """Install a package as pip does: modules on the path, and a directory with what it offers."""

    def into(package, points, content=SOUND, group=GROUP):
        folder = tmp_path / package
        described = folder / f"{package}-1.0.dist-info"
        described.mkdir(parents=True)
        described.joinpath("METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.0\n")
        lines = "\n".join(f"{name} = {address}" for name, address in points.items())
        described.joinpath("entry_points.txt").write_text(f"[{group}]\n{lines}\n")
        folder.joinpath(f"{package}.py").write_text(textwrap.dedent(content))
        sys.path.insert(0, str(folder))

    return into


def said(find, *arguments):
    with pytest.raises(ConfigError) as caught:
        find(*arguments)
    return str(caught.value)


# --- built in


def test_a_mapping_of_what_is_built_in():
    held = registry()
    assert dict(held) == {"still": Still, "calm": Calm}
    assert (len(held), list(held)) == (2, ["still", "calm"])
    assert held["calm"] is held.find("calm") is Calm
    assert held.about("calm") is Calm.about
    assert "calm" in held
    assert "storm" not in held
    assert 3 not in held
    assert held.name_of(Calm) == "calm"
    assert held | {"other": Still} == {"still": Still, "calm": Calm, "other": Still}
    with pytest.raises(KeyError):
        held["storm"]


def test_an_unknown_name_gets_a_suggestion_and_the_way_to_ones_own():
    address = "; one of your own is named by its address, as in my_module:MyEnvironment"
    assert said(registry().find, "clam") == f"unknown environment 'clam'; did you mean 'calm'?{address}"
    assert said(registry().find, "xyz") == f"unknown environment 'xyz'; known are: calm, still{address}"
    assert said(build, registry(), "clam", {}, "environment").startswith("unknown environment 'clam'; did you mean")


@pytest.mark.parametrize("held", [ALGORITHMS, ENVIRONMENTS, NETWORKS], ids=lambda held: held.what)
def test_the_catalogues_are_such_registries(held):
    assert isinstance(held, Registry)
    for name, kind in held.items():
        assert held.find(name) is kind
        assert held.name_of(kind) == name == held.about(name).name
    assert held.importable() == dict(held)


# --- at an address


def test_a_class_in_the_current_directory(module):
    name = module()
    held = registry()
    found = held.find(f"{name}:Moving")
    assert found.__name__ == "Moving"
    assert held[f"{name}:Moving"] is found
    assert f"{name}:Moving" in held
    assert held.name_of(found) == f"{name}:Moving"
    assert held.find(held.name_of(found)) is found
    assert build(held, f"{name}:Moving", {"speed": 4}, "environment").speed == 4
    assert list(held) == ["still", "calm"], "what has an address is not listed"
    inner = held.find(f"{name}:Moving.Inner")
    assert (held.name_of(inner), inner.about.name) == (f"{name}:Moving.Inner", "inner")


def test_a_class_of_the_library_or_of_any_installed_module():
    assert ALGORITHMS.find("fedbandits.algorithms:DisLinUCB") is DisLinUCB
    assert ALGORITHMS.name_of(DisLinUCB) == "dislinucb"


def test_a_class_like_one_that_is_built_in_is_found_by_its_address(module):
    """Its entry says "still", and so does another's."""
    name = module(SOUND.replace('"moving"', '"still"'))
    held = registry()
    found = held.find(f"{name}:Moving")
    assert held.name_of(found) == f"{name}:Moving"
    assert held["still"] is Still


def test_what_is_not_there(module):
    name = module()
    find = registry().find
    what = f"environment '{name}:"
    assert said(find, f"{name}:Movng") == f"{what}Movng': no 'Movng' there; did you mean 'Moving'?"
    assert said(find, f"{name}:") == f"{what}': no '' there; known are: Moving, Other"
    assert said(find, f"{name}:Moving.Inside") == f"{what}Moving.Inside': no 'Inside' there; known are: Inner"
    assert said(find, f"{name}:number") == f"{what}number': is no class but int; name a class"
    assert said(find, f"{name}:Nameless") == f"{what}Nameless': Nameless lacks about; see docs/adding-an-environment"
    assert said(find, f"{name}:Lacking") == (
        f"{what}Lacking': Lacking lacks about and world; see docs/adding-an-environment"
    )
    assert said(find, "my_modul:Moving") == (
        "environment 'my_modul:Moving': there is no module 'my_modul', neither installed nor in the current directory; "
        "write MODULE:CLASS"
    )
    assert said(find, "fedbandits.nowhere:Moving").startswith(
        "environment 'fedbandits.nowhere:Moving': there is no module 'fedbandits.nowhere'"
    )
    assert said(find, "calm:8") == "environment 'calm:8': '8' is not KEY=VALUE; write calm:KEY=VALUE,KEY=VALUE"


def test_an_algorithm_lacks_more_than_an_environment(module):
    name = module()
    assert said(ALGORITHMS.find, f"{name}:Moving") == (
        f"algorithm '{name}:Moving': Moving lacks agents and server; see docs/adding-an-algorithm"
    )


def test_modules_that_cannot_be_imported_say_why(module):
    find = registry().find
    name = module("import missing_for_ever\n")
    assert said(find, f"{name}:X") == (f"environment '{name}:X': {name} needs missing_for_ever, which is missing")
    name = module("1 / 0\n")
    assert said(find, f"{name}:X") == (
        f"environment '{name}:X': {name} cannot be imported: ZeroDivisionError: division by zero"
    )
    name = module("def broken(:\n")
    assert said(find, f"{name}:X").startswith(f"environment '{name}:X': {name} cannot be imported: SyntaxError: ")
    assert said(find, ":X").startswith("environment ':X':  cannot be imported: ValueError: ")


# --- offered by installed packages


def test_what_an_installed_package_offers_is_found_and_listed(install):
    install("movers", {"moving": "movers:Moving", "inside": "movers:Moving.Inner"})
    held = registry()
    assert list(held) == ["still", "calm", "moving", "inside"]
    assert len(held) == 4
    assert "moving" in held
    found = held["moving"]
    assert (found.__module__, found.__name__) == ("movers", "Moving")
    assert held.find("inside") is found.Inner
    assert held.name_of(found) == "moving"
    assert held.find("movers:Moving") is found
    assert build(held, "moving", {"speed": 3}, "environment").speed == 3
    assert said(held.find, "movin").startswith("unknown environment 'movin'; did you mean 'moving'?")


def test_nothing_is_imported_before_it_is_asked_for(install):
    install("movers", {"moving": "movers:Moving"})
    held = registry()
    assert "moving" in held
    assert list(held)
    assert "movers" not in sys.modules
    assert held["moving"]
    assert "movers" in sys.modules


def test_other_groups_are_not_looked_at(install):
    install("movers", {"moving": "movers:Moving"}, group="fedbandits.others")
    assert list(registry()) == ["still", "calm"]


def test_nobody_takes_the_place_of_what_is_built_in(install):
    install("movers", {"calm": "movers:Moving"})
    held = registry()
    assert held["calm"] is Calm
    assert list(held) == ["still", "calm"]
    assert held.name_of(held["movers:Moving"]) == "movers:Moving"


def test_two_packages_that_offer_one_name_are_both_named(install):
    install("movers", {"moving": "movers:Moving"})
    install("shakers", {"moving": "shakers:Other"})
    held = registry()
    assert list(held) == ["still", "calm", "moving"]
    told = said(held.find, "moving")
    assert re.fullmatch(
        r"environment 'moving' is offered by \w+ \(.*\) and \w+ \(.*\); name the one you mean by its address",
        told,
    )
    assert {"movers (movers:Moving)", "shakers (shakers:Other)"} == set(re.findall(r"\w+ \(.*?\)", told))
    assert held.find("shakers:Other").about.name == "other"
    assert held.name_of(held.find("movers:Moving")) == "movers:Moving"


@pytest.mark.parametrize(
    ("content", "told"),
    [
        ("1 / 0\n", "environment 'moving' of movers cannot be imported: ZeroDivisionError: division by zero"),
        ("import missing_for_ever\n", "environment 'moving' of movers cannot be imported: ModuleNotFoundError: "),
        ("\n", "environment 'moving' of movers cannot be imported: AttributeError: "),
        ("Moving = 3\n", "environment 'movers:Moving': is no class but int; name a class"),
        ("class Moving: ...\n", "environment 'movers:Moving': Moving lacks about and world; see docs/adding-an-"),
    ],
    ids=["raises", "needs", "lacks the class", "no class", "lacks methods"],
)
def test_a_broken_package_spoils_nothing_but_itself(install, content, told):
    install("movers", {"moving": "movers:Moving"}, content)
    held = registry()
    assert said(held.find, "moving").startswith(told)
    assert held["calm"] is Calm
    with pytest.warns(UserWarning, match=re.escape(told)):
        assert held.importable() == {"still": Still, "calm": Calm}


def test_a_broken_offer_of_the_same_name_does_not_hide_where_a_class_is(install, module):
    install("movers", {"moving": "movers:Moving"}, "1 / 0\n")
    name = module()
    held = registry()
    assert held.name_of(held.find(f"{name}:Moving")) == f"{name}:Moving"


# --- building


def test_classes_that_check_nothing_or_in_their_own_way_are_refused_in_the_same_words(module):
    name = module()
    told = said(build, registry(), f"{name}:Moving", {"sped": 3}, "environment")
    assert told.startswith(f"{name}:Moving: ")
    assert "unexpected keyword argument 'sped'" in told

    @pydantic.dataclasses.dataclass
    class Checked(Still):
        about = AboutEnvironment("checked", "own", "pydantic looks after it", "nowhere")
        speed: int = 1

    assert said(build, registry(Checked), "checked", {"speed": "fast"}, "environment").startswith(
        "checked: speed: must be a valid integer"
    )

    @dataclass(frozen=True)
    class Unchecked(Still):
        about = AboutEnvironment("unchecked", "own", "nobody looks after it", "nowhere")
        speed: int = 1

    assert build(registry(Unchecked), "unchecked", {"speed": 2}, "environment") == Unchecked(2)


def test_one_of_ones_own_is_simulated_by_its_address(module):
    name = module(
        """
        from typing import ClassVar

        from fedbandits.algorithms import IndependentLinUCB
        from fedbandits.contract.catalogue import About
        from fedbandits.contract.parameters import parameters
        from dataclasses import replace

        @parameters
        class Mine(IndependentLinUCB):
            extra: int = 1
            about: ClassVar[About] = replace(IndependentLinUCB.about, name="mine")
        """
    )
    mine = build(ALGORITHMS, f"{name}:Mine", {"extra": 2}, "algorithm")
    environment = fb.environments.Linear(clients=2, dim=2, arms=3)
    assert (
        fb.simulate(mine, environment, 20).regret[-1]
        == (fb.simulate(fb.algorithms.IndependentLinUCB(), environment, 20).regret[-1])
    )
    assert said(build, ALGORITHMS, f"{name}:Mine", {"extr": 2}, "algorithm") == (
        "mine has no parameter 'extr'; did you mean 'extra'?"
    )
