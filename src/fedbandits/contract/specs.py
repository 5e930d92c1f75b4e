"""Algorithms, environments and networks in words.

NAME                             one of the catalogue, with its defaults: ring
NAME:KEY=VALUE,KEY=VALUE         with parameters: dislinucb:threshold=2
MODULE:CLASS,KEY=VALUE           one of your own: my_module:MyAlgorithm,every=5
LABEL=...                        under a label: low=dislinucb:threshold=2
...|STAGE:KEY=VALUE              an algorithm whose messages go through stages: dislinucb|quantise:bits=8
"""

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
    stages: tuple[Spec, ...] = ()
    """What messages go through."""


def parse(text: str, option: str = "spec") -> Spec:
    """The spec that `text` spells; `option` is named in errors.

    >>> parse("low=dislinucb:threshold=2,width=theory")
    Spec(name='dislinucb', parameters={'threshold': 2, 'width': 'theory'}, label='low', stages=())
    >>> parse("my_module:MyAlgorithm,every=5").name
    'my_module:MyAlgorithm'
    >>> parse("dislinucb|quantise:bits=8").stages[0].parameters
    {'bits': 8}
    """
    first, *stages = text.split("|")
    head = first.partition(":")[0]
    label, equals, _ = (part.strip() for part in head.partition("="))
    if equals and not label:
        raise ConfigError(f"{option} {text!r}: a label is missing; write LABEL=NAME:KEY=VALUE,...")
    named = _target(first.partition("=")[2] if equals else first, option, text)
    through = tuple(_target(stage, option, text) for stage in stages)
    return Spec(named.name, named.parameters, label if equals else "", through)


def _target(text: str, option: str, whole: str) -> Spec:
    """A name or an address, with parameters."""
    name, colon, tail = (part.strip() for part in text.partition(":"))
    if not name or "=" in name or (colon and not tail):
        raise ConfigError(
            f"{option} {whole!r}: a name is missing; write NAME:KEY=VALUE,..., LABEL=NAME:KEY=VALUE,..., or "
            "MODULE:CLASS,KEY=VALUE for one of your own"
        )
    first, comma, rest = tail.partition(",")
    if colon and "=" not in first and all(part.isidentifier() for part in first.strip().split(".")):
        name, tail = f"{name}:{first.strip()}", rest
        if comma and not rest.strip():
            raise ConfigError(f"{option} {whole!r}: nothing follows the last comma")
        return Spec(name, _parameters(rest, name, f"{option} {whole!r}") if rest else {})
    return Spec(name, _parameters(tail, name, f"{option} {whole!r}") if colon else {})


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
