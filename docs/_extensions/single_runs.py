"""What marks say of single runs of an experiment, where how each of them ended is kept (`fedbandits.findings.ends`)."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
import pandas as pd

from fedbandits.contract.errors import ConfigError
from fedbandits.findings.ends import Ends
from fedbandits.findings.metrics import measure

OF_ONE: Mapping[str, Callable[[pd.Series], float]] = {
    "count": len,
    "mean": lambda values: float(values.mean()),
    "median": lambda values: float(values.median()),
    "most": lambda values: float(values.max()),
}
"""What there is to tell of the runs of one algorithm."""
OF_TWO: Mapping[str, Callable[[pd.Series, pd.Series], pd.Series]] = {
    "more": lambda of, than: of > than,
    "less": lambda of, than: of < than,
    "equal": lambda of, than: of == than,
}
"""What is told by how many runs of one have more, less, or to the last bit as much as another under the same seed."""


def ended_with(ends: Ends, metric: str, at: Mapping[str, str]) -> pd.DataFrame:
    """What each run ended with: `algorithm`, `seed` and `value`, of the points of a sweep that `at` names."""
    held = [record for record in ends.records if all(same(record.point.get(name), at[name]) for name in at)]
    if not held:
        raise ConfigError("no run that is kept is what a mark asks for")
    frame = pd.concat([record.run.frame for record in held], ignore_index=True)
    frame["algorithm"] = [record.label for record in held]
    frame["seed"] = [record.seed for record in held]
    frame["clients"] = [len(record.run.regret_by_client) for record in held]
    return frame.assign(value=measure(frame, metric))[["algorithm", "seed", "value"]]


def tell_of(runs: pd.DataFrame, what: str, of: str, seeds: int, than: str = "", above: float = np.nan) -> float:
    """`what` there is to tell of the first `seeds` runs of `of`: one of `OF_ONE`; one of `OF_TWO`, beside those of
    `than`; or "above", how many are above a number.
    """
    if what not in (*OF_ONE, *OF_TWO, "above"):
        raise ConfigError(f"tell={what} is none of {', '.join([*OF_ONE, *OF_TWO, 'above'])}")
    values = _of(runs, of, seeds)
    if what in OF_ONE:
        return OF_ONE[what](values)
    if what in OF_TWO:
        if not than:
            raise ConfigError(f"tell={what} needs than=LABEL")
        other = _of(runs, than, seeds)
        if not other.index.equals(values.index):
            raise ConfigError(f"{of} and {than} were not run under the same seeds")
        return int(OF_TWO[what](values, other).sum())
    if np.isnan(above):
        raise ConfigError("tell=above needs above=NUMBER")
    return int((values > above).sum())


def _of(runs: pd.DataFrame, label: str, seeds: int) -> pd.Series:
    values = runs[runs["algorithm"] == label].set_index("seed")["value"].sort_index()
    if values.index.has_duplicates:
        raise ConfigError(f"several runs of {label} for each seed; say which by at.COLUMN=VALUE")
    if len(values) < seeds:
        raise ConfigError(f"of {seeds} runs of {label} only {len(values)} are kept")
    return values.iloc[:seeds]


def same(held: object, given: str) -> bool:
    """Whether a value, or None where there is none, is the one that a mark names."""
    try:
        return held is None or float(str(held)) == float(given)
    except ValueError:
        return str(held) == given
