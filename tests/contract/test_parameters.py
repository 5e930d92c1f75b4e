"""Parameters as values: one decorator for algorithms, environments, networks and stages, one way to complain."""

from __future__ import annotations

import dataclasses
import inspect
import pickle
import subprocess
import sys
from pathlib import Path
from typing import Annotated, ClassVar

import pytest
from pydantic import Field, model_validator
from pydantic.errors import PydanticUndefinedAnnotation

import fedbandits as fb
from fedbandits.algorithms import ALGORITHMS, DisLinUCB
from fedbandits.channel import STAGES
from fedbandits.contract.catalogue import About, ConfigError, build
from fedbandits.contract.parameters import called, parameters, value
from fedbandits.environments import ENVIRONMENTS
from fedbandits.graphs.topologies import NETWORKS

REGISTRIES = {"algorithm": ALGORITHMS, "environment": ENVIRONMENTS, "network": NETWORKS, "stage": STAGES}
KINDS = [(what, name) for what, registry in REGISTRIES.items() for name in registry]
NEEDED = {"edge-list": {"path": "links.txt"}, "given": {"nodes": 3}}
"""What has no default."""
every_kind = pytest.mark.parametrize(("what", "name"), KINDS, ids=[f"{what}-{name}" for what, name in KINDS])


class Odd:
    """A value that no parameter can have."""

    def __repr__(self):
        return "odd"


def complaints(what, name, **given):
    """What Python says, and what files and the command line are told; the same."""
    told = []
    for make in (lambda: REGISTRIES[what][name](**given), lambda: build(REGISTRIES[what], name, given, what)):
        with pytest.raises(ConfigError) as caught:
            make()
        assert caught.value.__cause__ is None
        told.append(str(caught.value))
    assert told[0] == told[1]
    return told[0]


@every_kind
def test_an_unknown_parameter_is_refused_alike_everywhere(what, name):
    kind = REGISTRIES[what][name]
    known = [item.name for item in dataclasses.fields(kind)]
    said = complaints(what, name, zzz=1)
    assert said == f"{name} has no parameter 'zzz'; it takes: {', '.join(known) or 'none'}"
    for right in known[:1]:
        said = complaints(what, name, **{f"{right}x": 1})
        assert said == f"{name} has no parameter '{right}x'; did you mean '{right}'?"


@every_kind
def test_a_bad_value_names_the_field_and_what_it_got(what, name):
    for item in dataclasses.fields(REGISTRIES[what][name]):
        said = complaints(what, name, **(NEEDED.get(name, {}) | {item.name: Odd()}))
        (line,) = said.splitlines()
        assert line.startswith(f"{name}: {item.name}: ")
        assert line.endswith("(got odd)")
        assert "pydantic" not in said


@every_kind
def test_values_move_between_processes_and_cannot_be_changed(what, name):
    kind = REGISTRIES[what][name]
    one = kind(**NEEDED.get(name, {}))
    again = pickle.loads(pickle.dumps(one))
    assert again == one
    assert hash(again) == hash(one)
    assert dataclasses.replace(one) == one
    assert called(kind) == name
    for item in dataclasses.fields(kind):
        with pytest.raises(dataclasses.FrozenInstanceError):
            setattr(one, item.name, None)


@every_kind
def test_the_signature_is_that_of_the_parameters(what, name):
    """As completion in an editor and `help` have it."""
    kind = REGISTRIES[what][name]
    held = inspect.signature(kind).parameters
    assert list(held) == [item.name for item in dataclasses.fields(kind)]
    assert {one.kind for one in held.values()} <= {inspect.Parameter.KEYWORD_ONLY}
    assert {word for word, one in held.items() if one.default is one.empty} == NEEDED.get(name, {}).keys()


def test_what_is_missing_is_named():
    assert complaints("network", "edge-list") == "edge-list: path: field required"


def test_values_have_names():
    with pytest.raises(ConfigError, match=r"dislinucb takes its parameters by name; write DisLinUCB\(ridge=2\)"):
        DisLinUCB(2)


def test_a_changed_copy_is_checked_as_well():
    assert dataclasses.replace(DisLinUCB(), threshold=2).threshold == 2.0
    with pytest.raises(ConfigError, match=r"dislinucb: threshold: .*got -2"):
        dataclasses.replace(DisLinUCB(), threshold=-2)
    with pytest.raises(ConfigError, match=r"dislinucb has no parameter 'treshold'; did you mean 'threshold'\?"):
        dataclasses.replace(DisLinUCB(), treshold=2)


# --- classes of one's own

Whole = Annotated[int, Field(ge=1)]


@parameters
class Hurried(DisLinUCB):
    """One more parameter, another name, a default of its own and a check across fields."""

    threshold: Annotated[float, Field(ge=0)] = 0.5
    pace: Whole = 10

    about: ClassVar[About] = dataclasses.replace(DisLinUCB.about, name="hurried")

    @model_validator(mode="after")
    def _is_in_a_hurry(self) -> Hurried:
        if self.pace > 100 * self.ridge:
            raise ValueError(f"pace={self.pace} is no hurry with ridge={self.ridge:g}; lower it")
        return self


class Plain(DisLinUCB):
    """A subclass that adds nothing to the parameters needs no decorator."""


@parameters
class Bare:
    """Without an entry in any catalogue."""

    width: float = 1.0


@value
class Pair:
    """Two numbers, the second one with a default."""

    first: int
    second: Whole = 7


def test_subclasses_have_the_parameters_of_both_and_speak_in_their_own_name():
    assert [item.name for item in dataclasses.fields(Hurried)] == [
        "ridge",
        "width",
        "delta",
        "memory",
        "every",
        "threshold",
        "pace",
    ]
    assert Hurried(ridge=2).ridge == 2.0
    assert Hurried().threshold == 0.5
    assert isinstance(Hurried(), DisLinUCB)
    assert pickle.loads(pickle.dumps(Hurried(pace=3))) == Hurried(pace=3)
    for given, said in {
        "pace": "hurried: pace: must be greater than or equal to 1 (got 0)",
        "ridge": "hurried: ridge: must be greater than 0 (got 0)",
        "threshold": None,
    }.items():
        if said is None:
            assert Hurried(**{given: 0}).threshold == 0.0
            continue
        with pytest.raises(ConfigError) as caught:
            Hurried(**{given: 0})
        assert str(caught.value) == said
    with pytest.raises(ConfigError) as caught:
        Hurried(pace=101)
    assert str(caught.value) == "hurried: pace=101 is no hurry with ridge=1; lower it"
    with pytest.raises(ConfigError, match=r"hurried has no parameter 'pase'; did you mean 'pace'\?"):
        Hurried(pase=3)
    fb.simulate(Hurried(), fb.environments.Linear(clients=2, dim=2, arms=2), 3)


def test_a_subclass_without_the_decorator_is_checked_by_what_it_derives_from():
    assert Plain(threshold=2).threshold == 2.0
    assert Plain() != DisLinUCB()
    with pytest.raises(ConfigError, match="dislinucb: threshold: "):
        Plain(threshold=-1)


def test_without_an_entry_the_class_gives_the_name():
    with pytest.raises(ConfigError, match="Bare: width: must be a valid number"):
        Bare(width="wide")


def test_values_may_be_given_by_place():
    assert Pair(1) == Pair(first=1, second=7) == Pair(1, second=7)
    assert Pair(1, 2) == Pair(second=2, first=1)
    for arguments, said in (
        ((), "Pair: first: field required"),
        ((1, 0), r"Pair: second: must be greater than or equal to 1 \(got 0\)"),
        ((1, 2, 3), r"Pair takes at most 2 without names \(first, second\); write Pair\(first=1\)"),
    ):
        with pytest.raises(ConfigError, match=said):
            Pair(*arguments)
    with pytest.raises(ConfigError, match="Pair: first is given twice"):
        Pair(1, first=1)


def test_classes_may_be_written_inside_functions():
    """Annotations are words here: their names are looked up where the class stands, and once for all."""
    nearby = Annotated[int, Field(ge=5)]

    @parameters
    class Local:
        least: nearby = 5

    for _ in range(2):
        with pytest.raises(ConfigError, match="Local: least: must be greater than or equal to 5"):
            Local(least=4)
    with pytest.raises(PydanticUndefinedAnnotation, match="Nowhere"):

        @parameters
        class Lost:
            where: Nowhere = 1  # noqa: F821


# --- what type checkers make of it

PROGRAM = """
from __future__ import annotations

from typing import Annotated

from pydantic import Field

from fedbandits.algorithms.linear.dislinucb import DisLinUCB
from fedbandits.contract.facts import Noise
from fedbandits.contract.parameters import parameters, value


@parameters
class Periodic:
    every: Annotated[int, Field(ge=1)] = 10


@value
class Pair:
    first: int
    second: int = 7


Periodic(every=5)
Pair(1, second=2)
Noise(0.5)
DisLinUCB(threshold=2.0)
{wrong}
"""
WRONG = {
    'Periodic(every="often")': 'Argument "every" to "Periodic" has incompatible type "str"; expected "int"',
    "Periodic(evry=5)": 'Unexpected keyword argument "evry" for "Periodic"; did you mean "every"?',
    "Periodic(5)": 'Too many positional arguments for "Periodic"',
    "Pair()": 'Missing positional argument "first" in call to "Pair"',
    "Periodic().every = 6": 'Property "every" defined in "Periodic" is read-only',
    "DisLinUCB(treshold=1)": 'Unexpected keyword argument "treshold" for "DisLinUCB"; did you mean "threshold"?',
    "Noise(sigma=None)": 'Argument "sigma" to "Noise" has incompatible type "None"; expected "float"',
}


SEEN = (
    "contract/parameters",
    "models/paced",
    "models/keeping",
    "contract/facts/noise",
    "algorithms/linear/parameters",
    "algorithms/linear/dislinucb",
)
"""What the checker is shown of the package: the rest would take it half a minute."""


def test_type_checkers_understand_the_decorators(tmp_path):
    """One sound program, and one with a deliberate error of each kind in its last lines."""
    pytest.importorskip("mypy")
    sound, wrong = tmp_path / "sound.py", tmp_path / "wrong.py"
    sound.write_text(PROGRAM.format(wrong=""))
    wrong.write_text(PROGRAM.format(wrong="\n".join(WRONG)))
    package = Path(fb.__file__).parent
    command = [sys.executable, "-m", "mypy", "--config-file=", f"--cache-dir={tmp_path / 'cache'}"]
    command += ["--no-error-summary", "--hide-error-codes", "--follow-imports=skip", "--ignore-missing-imports"]
    files = [*(package / f"{name}.py" for name in SEEN), package / "contract" / "facts" / "__init__.py", sound, wrong]
    checked = subprocess.run(
        [*command, *map(str, files)], capture_output=True, text=True, env={"MYPYPATH": str(package.parent)}
    )
    first = wrong.read_text().splitlines().index(next(iter(WRONG))) + 1
    expected = [f"{wrong}:{first + at}: error: {said}" for at, said in enumerate(WRONG.values())]
    assert checked.stdout.splitlines() == expected, checked.stderr
