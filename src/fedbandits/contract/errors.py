"""Errors a user can mend: each names the field and the fix."""

from __future__ import annotations

import difflib
import re
from collections.abc import Sequence

from pydantic import ValidationError


class ConfigError(ValueError):
    """A name or parameter that cannot be used; the message names the field and the fix."""


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
        if problem["type"] != "missing":  # whose input is everything else
            shown = repr(problem.get("input"))
            inputs[place] = shown if len(shown) <= 60 else shown[:57] + "..."
        complaints.setdefault(place, []).append(_in_words(problem["msg"]))
    lines = []
    for place, messages in complaints.items():
        message = " or ".join([messages[0], *(other.removeprefix("must be ") for other in messages[1:])])
        where = f"{name}: {place}" if place else name
        lines.append(f"{where}: {message}" + (f" (got {inputs[place]})" if place and place in inputs else ""))
    return "\n".join(lines)


_ALTERNATIVE = re.compile(r"(function-|constrained-|literal\[|tuple\[|(float|int|str|none|bool)$)")
"""Parts of pydantic's places that name a type, not a field."""


def _in_words(message: str) -> str:
    message = message.removeprefix("Value error, ")
    message = message.replace("Input should be ", "must be ", 1).replace(", unable to parse string as a number", "")
    return message[:1].lower() + message[1:]
