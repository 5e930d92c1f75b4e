"""The two sizes of an experiment: the one its file gives, which runs in minutes, and that of its table [full]."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from fedbandits.contract.errors import hint

WHOLE = ("description", "points", "claims", "published")
"""What [full] replaces as a whole."""
TABLES = ("run", "environment", "network", "attack", "algorithms", "sweep")
"""What [full] replaces value by value."""


def enlarged(content: Mapping[str, Any], full: Mapping[str, Any]) -> dict[str, Any]:
    """The `content` of an experiment file with the values of `full` by their dotted paths in place of its own.

    Names of environments, networks and algorithms stay as they are: what has another size is the same experiment.
    Raises `ValueError` for a path that leads nowhere.

    >>> small = {"run": {"horizon": 100, "seeds": 5}, "sweep": {"environment.clients": [1, 2]}}
    >>> enlarged(small, {"run.horizon": 1000, "sweep.environment.clients": [10, 100]})
    {'run': {'horizon': 1000, 'seeds': 5}, 'sweep': {'environment.clients': [10, 100]}}
    """
    large = dict(content)
    for path, value in full.items():
        if path in WHOLE:
            large[path] = value
            continue
        table, _, name = path.partition(".")
        if table not in TABLES or not name or (name == "name" and table != "sweep"):
            raise ValueError(_nowhere(path))
        if table == "algorithms":
            large[table] = _with_parameter(large.get(table) or {}, path, value)
        else:
            large[table] = {**(large.get(table) or {}), name: value}
    swept = [path for path in full if path in _swept(large)]
    if swept:
        raise ValueError(f'full: {swept[0]!r} is swept over; replace its values by "sweep.{swept[0]}" = [...]')
    return large


def _with_parameter(algorithms: Mapping[str, Any], path: str, value: Any) -> dict[str, Any]:
    """`algorithms` with one parameter of one of them replaced; labels may have dots."""
    label, _, name = path.removeprefix("algorithms.").rpartition(".")
    if not label or name == "name":
        raise ValueError(_nowhere(path))
    if label not in algorithms:
        raise ValueError(f"full: {path!r}: no algorithm {label!r} here; {hint(label, list(algorithms))}")
    return {**algorithms, label: {**algorithms[label], name: value}}


def _swept(content: Mapping[str, Any]) -> Sequence[str]:
    points = content.get("points") or [{}]
    return [*(content.get("sweep") or {}), *points[0]]


def _nowhere(path: str) -> str:
    return (
        f"full: cannot replace {path!r}; possible are run.SETTING, environment.PARAMETER, network.PARAMETER, "
        f"attack.PARAMETER, algorithms.LABEL.PARAMETER, sweep.PATH, and as a whole {', '.join(WHOLE)}"
    )
