"""Algorithms, environments and networks in words: `label=name:key=value,key=value`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from fedbandits.contract.catalogue import ConfigError


@dataclass(frozen=True, slots=True)
class Spec:
    """What somebody wrote: a name with parameters, under a label if one was given."""

    name: str
    parameters: Mapping[str, Any] = field(default_factory=dict)
    label: str = ""


def parse(text: str, option: str = "spec") -> Spec:
    """The spec that `text` spells; `option` is named in errors.

    >>> parse("low=dislinucb:threshold=2,width=theory")
    Spec(name='dislinucb', parameters={'threshold': 2, 'width': 'theory'}, label='low')
    >>> parse("ring")
    Spec(name='ring', parameters={}, label='')
    """
    head, colon, tail = text.partition(":")
    label, equals, name = (part.strip() for part in (head.partition("=") if "=" in head else ("", "", head)))
    if not name or (equals and not label):
        raise ConfigError(f"{option} {text!r}: a name is missing; write NAME:KEY=VALUE,... or LABEL=NAME:KEY=VALUE,...")
    return Spec(name, _parameters(tail, name, f"{option} {text!r}") if colon else {}, label)


def _parameters(text: str, name: str, where: str) -> dict[str, Any]:
    parameters: dict[str, Any] = {}
    for part in text.split(","):
        key, equals, value = (piece.strip() for piece in part.partition("="))
        if not (key and equals and value):
            raise ConfigError(f"{where}: {part!r} is not KEY=VALUE; write {name}:KEY=VALUE,KEY=VALUE")
        if key in parameters:
            raise ConfigError(f"{where}: {key!r} is given twice; leave one out")
        parameters[key] = literal(value)
    return parameters


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
