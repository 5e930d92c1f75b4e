"""Settings as version 0.1.0 knew them: files that it wrote are read, and who still writes so is told what to write."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fedbandits.contract.facts import Contamination, Fact, Link, Moment, Noise, Norms, Range, Shared

_FORMER: dict[str, tuple[type[Fact], str | None]] = {
    "noise": (Noise, "sigma"),
    "bound": (Norms, "parameter"),
    "arm_norm": (Norms, "arms"),
    "link": (Link, "function"),
    "shared": (Shared, "coordinates"),
    "moment": (Moment, None),
    "contamination": (Contamination, "share"),
    "range": (Range, None),
}
"""What used to be a setting of its own: the fact that tells it now, and which field of it (None: all)."""


def translated_settings(held: Mapping[str, Any]) -> dict[str, Any]:
    """Settings in a file as they are written now, whichever version wrote them."""
    if "facts" in held:
        return dict(held)
    facts: dict[str, Any] = {}
    for name, (kind, field) in _FORMER.items():
        told = held.get(name)
        if told is not None and field is None:
            facts[kind.name] = told
        elif told is not None:
            facts.setdefault(kind.name, {})[field] = told
    return {name: value for name, value in held.items() if name not in _FORMER} | {"facts": facts}


def in_python(name: str, told: Any) -> str | None:
    """What to write in place of the keyword `name` of 0.1.0; None if there was none of that name."""
    if name not in _FORMER:
        return None
    kind, field = _FORMER[name]
    inside = repr(told) if field is None else f"{field}={told!r}"
    if kind is Range and isinstance(told, tuple | list):
        inside = ", ".join(map(repr, told))
    fact = inside if isinstance(told, Fact) else f"{kind.__name__}({inside})"
    return f"{name} is a fact now: write facts=[{fact}]"


def in_toml(name: str, told: Any) -> str | None:
    """What to write in place of the key `name` of `[agent]` in 0.1.0; None if there was none of that name."""
    if name not in _FORMER:
        return None
    kind, field = _FORMER[name]
    value = f'"{told}"' if isinstance(told, str) else "{...}" if isinstance(told, dict) else f"{told}"
    single = field is None or kind is not Norms
    return f"{name} is a fact now: write {kind.name} = {value if single else f'{{{field} = {value}}}'} under [facts]"
