"""Facts that are a table: rows of numbers, all of the same length."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Field

Rows = tuple[tuple[Annotated[float, Field(allow_inf_nan=False)], ...], ...]


def check_rows(name: str, rows: Rows, of: str) -> None:
    """Raise unless all `rows` of the field `name`, one for each `of`, have the same length, which is not 0."""
    lengths = {len(row) for row in rows}
    if len(lengths) != 1 or lengths == {0}:
        raise ValueError(f"{name}: every {of} needs as many numbers as the others, got rows of {sorted(lengths)}")


def rows_told(told: list[Any] | tuple[Any, ...]) -> Rows:
    """A table as a configuration file tells it: a list of rows, or a list that holds nothing but such a list."""
    table = told[0] if len(told) == 1 and told[0] and isinstance(told[0][0], list | tuple) else told
    return tuple(tuple(row) for row in table)
