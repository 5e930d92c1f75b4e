"""What the catalogue says of an algorithm or environment, and how one is built from a name and parameters."""

from __future__ import annotations

import dataclasses
import difflib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from pydantic import ValidationError

from fedbandits.contract.wire import Utterance

T = TypeVar("T")


class ConfigError(ValueError):
    """A name or parameter that cannot be used; the message names the field and the fix."""


@dataclass(frozen=True, slots=True)
class About:
    """A catalogue entry."""

    name: str
    family: str
    topology: str
    """"alone", "star" or "graph"."""
    talks: str
    """When it talks."""
    says: tuple[Utterance, ...]
    """What crosses the wire; nothing else can."""
    guarantee: str
    """The guarantee that holds for the shipped variant, and what it rests on."""
    source: str
    private: bool = False
    hops: int | None = None
    """How many hops its messages travel at most, on a graph; None: as many as the network allows."""
    waits: bool = False
    """Whether its conversations need everybody: a deployed server then waits for the silent instead of leaving them
    out."""
    environment: str = "linear"
    """The environment it is at home in: what the conformance suite and examples run it on."""

    @property
    def wire(self) -> str:
        """What crosses the wire, in words."""
        return "; ".join(map(str, self.says)) or "nothing"


def build(registry: Mapping[str, type[T]], name: str, parameters: Mapping[str, Any], what: str) -> T:
    """The entry `name` of `registry` with `parameters`; raises `ConfigError` naming the field and the fix."""
    if name not in registry:
        raise ConfigError(f"unknown {what} {name!r}; {hint(name, sorted(registry))}")
    kind = registry[name]
    known = [item.name for item in dataclasses.fields(kind) if item.init]  # type: ignore[arg-type]
    for given in parameters:
        if given not in known:
            raise ConfigError(f"{name} has no parameter {given!r}; {hint(given, known, 'it takes')}")
    try:
        return kind(**parameters)
    except ValidationError as error:
        raise ConfigError(explain(name, error)) from None


def hint(name: str, known: Sequence[str], otherwise: str = "known are") -> str:
    """What somebody who wrote `name` may have meant: the one of `known` that is close to it, or all of them."""
    close = difflib.get_close_matches(name, known, n=1)
    return f"did you mean {close[0]!r}?" if close else f"{otherwise}: {', '.join(known) or 'none'}"


def explain(name: str, error: ValidationError) -> str:
    """A pydantic error as one readable sentence per field.

    A field that may be one of several types has an error for each of them: they are told as alternatives.
    """
    complaints: dict[str, list[str]] = {}
    inputs: dict[str, str] = {}
    for problem in error.errors(include_url=False):
        place = ".".join(str(part) for part in problem["loc"] if not _ALTERNATIVE.match(str(part)))
        shown = repr(problem.get("input"))
        inputs[place] = shown if len(shown) <= 60 else shown[:57] + "..."
        complaints.setdefault(place, []).append(_in_words(problem["msg"]))
    lines = []
    for place, messages in complaints.items():
        message = " or ".join([messages[0], *(other.removeprefix("must be ") for other in messages[1:])])
        where = f"{name}: {place}" if place else name
        lines.append(f"{where}: {message}" + (f" (got {inputs[place]})" if place else ""))
    return "\n".join(lines)


_ALTERNATIVE = re.compile(r"(function-|constrained-|literal\[|(float|int|str|none|bool)$)")
"""Parts of pydantic's places that name a type, not a field."""


def _in_words(message: str) -> str:
    message = message.removeprefix("Value error, ")
    message = message.replace("Input should be ", "must be ", 1).replace(", unable to parse string as a number", "")
    return message[:1].lower() + message[1:]
