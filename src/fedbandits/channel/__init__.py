"""Stages between an algorithm and the wire, by public name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from fedbandits.channel.gaussian import Gaussian
from fedbandits.channel.quantise import Quantise
from fedbandits.channel.robust import Robust
from fedbandits.channel.stage import End, Stage
from fedbandits.channel.through import Through, through
from fedbandits.contract.catalogue import ConfigError, Registry, build, hint
from fedbandits.contract.specs import parse

STAGES: Registry[Stage] = Registry(
    "stage", "fedbandits.stages", (Gaussian, Quantise, Robust), needs=("declares", "poses", "ends")
)


def stages_of(given: Any, option: str = "through") -> tuple[Stage, ...]:
    """The stages that `given` stands for; `option` is named in errors.

    One or a list of stages, of words as in "quantise:bits=8", or of tables with a name and parameters.

    >>> stages_of(["quantise:bits=8", {"name": "quantise", "bits": 4}])
    (Quantise(bits=8), Quantise(bits=4))
    """
    return tuple(_stage(item, option) for item in (given if isinstance(given, list | tuple) else [given]))


def _stage(given: Any, option: str) -> Stage:
    if isinstance(given, str):
        spec = parse(given, option)
        if spec.label or spec.stages:
            raise ConfigError(f"{option} {given!r}: is no stage; write STAGE:KEY=VALUE, one for each in a list")
        return build(STAGES, spec.name, spec.parameters, "stage")
    if isinstance(given, Mapping):
        parameters = {str(name): value for name, value in given.items() if name != "name"}
        if "name" not in given:
            raise ConfigError(f"{option}: a stage needs a name; {hint('', sorted(STAGES))}")
        return build(STAGES, str(given["name"]), parameters, "stage")
    if isinstance(given, type) or not all(hasattr(given, name) for name in ("about", "declares", "poses", "ends")):
        raise ConfigError(f"{option}: {given!r} is no stage; give one of fedbandits.stages, or words: quantise:bits=8")
    return cast(Stage, given)


__all__ = ["STAGES", "End", "Gaussian", "Quantise", "Robust", "Stage", "Through", "stages_of", "through"]
