"""Where things are printed: results on standard output; progress, notes and complaints on standard error."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Mapping
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text


def out() -> Console:
    """Standard output, for results."""
    return Console(file=sys.stdout, highlight=False)


def err() -> Console:
    """Standard error, for everything else."""
    return Console(file=sys.stderr, highlight=False)


def note(text: str) -> None:
    """A remark that is not a result."""
    err().print(Text(text, style="dim"), soft_wrap=True)


def complain(text: str, code: int) -> int:
    """What is wrong, in one red line; returns the exit code."""
    line = "; ".join(part.strip() for part in text.splitlines() if part.strip())
    err().print(Text(f"error: {line}", style="bold red"), soft_wrap=True)
    return code


def print_json(value: Any) -> None:
    """`value` for programs: strict JSON, numbers that JSON lacks as null."""
    sys.stdout.write(json.dumps(_strict(value), indent=2, ensure_ascii=False, allow_nan=False) + "\n")


def print_facts(facts: Mapping[str, Any], *, as_json: bool) -> None:
    """Facts by name: a line for each, or JSON for programs."""
    if as_json:
        print_json(facts)
        return
    lines = Table.grid(padding=(0, 2))
    lines.add_column(style="dim")
    lines.add_column(overflow="fold")
    for name, value in facts.items():
        lines.add_row(name.replace("_", " "), Text(_readable(value)))
    out().print(lines)


def _readable(value: Any) -> str:
    if isinstance(value, Mapping):
        return ", ".join(f"{name} {_readable(item)}" for name, item in value.items()) or "none"
    if isinstance(value, list | tuple):
        return ", ".join(map(_readable, value)) or "none"
    if value is None or isinstance(value, bool):
        return {None: "-", True: "yes", False: "no"}[value]
    return f"{value:,}" if isinstance(value, int) else f"{value:,.4g}" if isinstance(value, float) else str(value)


def _strict(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {str(key): _strict(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_strict(item) for item in value]
    if hasattr(value, "item"):  # a numpy scalar
        return _strict(value.item())
    return None if isinstance(value, float) and not math.isfinite(value) else value
