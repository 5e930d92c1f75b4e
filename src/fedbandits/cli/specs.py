"""Algorithms, environments and networks as words of a command line: `label=name:key=value,key=value`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from fedbandits.contract.catalogue import ConfigError, build

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Spec:
    """A catalogue name with parameters, under a label (the name itself where none is given)."""

    label: str
    name: str
    parameters: Mapping[str, Any]


def parse(text: str, option: str) -> Spec:
    """The spec that `text` spells; `option` is named in errors.

    >>> parse("low=dislinucb:threshold=2,width=theory", "-a")
    Spec(label='low', name='dislinucb', parameters={'threshold': 2, 'width': 'theory'})
    """
    head, colon, tail = text.partition(":")
    label, equals, name = head.partition("=") if "=" in head else (head, "", head)
    label, name = label.strip(), name.strip()
    if not name or not label:
        raise ConfigError(f"{option} {text!r}: a name is missing; write NAME:KEY=VALUE,... or LABEL=NAME:KEY=VALUE,...")
    parameters: dict[str, Any] = {}
    for part in tail.split(",") if colon else ():
        key, equals, value = (piece.strip() for piece in part.partition("="))
        if not (key and equals and value):
            raise ConfigError(f"{option} {text!r}: {part!r} is not KEY=VALUE; write {name}:KEY=VALUE,KEY=VALUE")
        if key in parameters:
            raise ConfigError(f"{option} {text!r}: {key!r} is given twice; leave one out")
        parameters[key] = literal(value)
    return Spec(label, name, parameters)


def literal(text: str) -> Any:
    """A whole number, a number (`inf` included), `none`, or else the word itself; the field decides if it will do.

    >>> [literal(text) for text in ("3", "2.5", "1e3", "inf", "none", "theory")]
    [3, 2.5, 1000.0, inf, None, 'theory']
    """
    if text.lower() == "none":
        return None
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text


def built(registry: Mapping[str, type[T]], spec: Spec, what: str) -> T:
    """The algorithm, environment or network that `spec` names."""
    return build(registry, spec.name, spec.parameters, what)


def by_label(specs: Sequence[Spec]) -> dict[str, Spec]:
    """The specs by label; two of the same label are refused."""
    held: dict[str, Spec] = {}
    for spec in specs:
        if spec.label in held:
            raise ConfigError(
                f"-a: the label {spec.label!r} is used twice; give one of them its own: -a other={spec.name}:..."
            )
        held[spec.label] = spec
    return held
