"""Algorithms in terms JSON and TOML have: `{"name": "dislinucb", "threshold": 2.0, "through": [{"name": "quantise"}]}`.

The name is that of the catalogue, or the address of a class that is not in it: `"my_module:Periodic"`. The same holds
for the stages that messages go `through`, if there are any.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from pydantic import TypeAdapter

from fedbandits.algorithms import ALGORITHMS
from fedbandits.channel import STAGES, Through, stages_of, through
from fedbandits.contract.algorithm import Algorithm
from fedbandits.contract.catalogue import ConfigError, Registry, build
from fedbandits.contract.specs import parse

_THROUGH = "through"
_SCRIPT = "__main__:"


def algorithm_to_plain(algorithm: Algorithm) -> dict[str, Any]:
    """Name and parameters of `algorithm`, and what its messages go through."""
    if isinstance(algorithm, Through):
        stages = [_plain(stage, STAGES) for stage in algorithm.stages]
        return {**algorithm_to_plain(algorithm.algorithm), _THROUGH: stages}
    return _plain(algorithm, ALGORITHMS)


def algorithm_from_plain(plain: Any, given: Algorithm | None = None) -> Algorithm:
    """The algorithm that `plain` spells: a table, or words as on the command line, "dislinucb:threshold=2|quantise".

    One that no other program finds, since it was defined in a script, a notebook or a function, is found by being
    `given` again.
    """
    table = _table(plain)
    name = table["name"]
    parameters = {key: value for key, value in table.items() if key not in ("name", _THROUGH)}
    kind: Any = type(given.algorithm if isinstance(given, Through) else given)
    known = given is not None and name in _names_of(kind)
    found: Algorithm = kind(**parameters) if known else _built(name, parameters)
    return through(found, stages_of(table[_THROUGH])) if table.get(_THROUGH) else found


def _plain(thing: Any, registry: Registry[Any]) -> dict[str, Any]:
    kind = type(thing)
    if not dataclasses.is_dataclass(kind):
        raise ConfigError(
            f"{registry.what}: {kind.__name__} is no dataclass of parameters, so it cannot be written down; decorate "
            "it with fedbandits.contract.parameters.parameters"
        )
    return {"name": registry.name_of(kind), **TypeAdapter(kind).dump_python(thing, mode="json")}


def _table(plain: Any) -> Mapping[str, Any]:
    if isinstance(plain, str):
        spec = parse(plain, "algorithm")
        if spec.label:
            raise ConfigError(f"algorithm {plain!r}: a label has no use here; leave {spec.label}= out")
        stages = [{"name": stage.name, **stage.parameters} for stage in spec.stages]
        return {"name": spec.name, **spec.parameters, _THROUGH: stages}
    if not isinstance(plain, Mapping) or not isinstance(plain.get("name"), str):
        raise ConfigError('algorithm must be a name, or a table with name = "..." and its parameters')
    return plain


def _built(name: str, parameters: Mapping[str, Any]) -> Algorithm:
    try:
        return build(ALGORITHMS, name, parameters, "algorithm")
    except ConfigError as error:
        if name.startswith(_SCRIPT):
            raise ConfigError(
                f"algorithm {name!r} was defined in a script or notebook, where no other program finds it: give it "
                "(algorithm=...), or define it in a module of its own"
            ) from error
        raise


def _names_of(kind: Any) -> set[str]:
    """Under which names `kind` may have been written down; version 0.1.0 knew those of the catalogue alone."""
    return {ALGORITHMS.name_of(kind), kind.about.name, f"{_SCRIPT}{kind.__qualname__}"}
