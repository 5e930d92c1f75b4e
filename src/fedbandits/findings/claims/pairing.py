"""Values side by side under the same seeds."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import pandas as pd

from fedbandits.contract.arrays import FloatArray
from fedbandits.contract.catalogue import ConfigError
from fedbandits.findings.metrics import measure


def paired(columns: Iterable[pd.Series]) -> FloatArray:
    """(seeds, columns) the values under those seeds that all columns have."""
    return pd.concat(list(columns), axis=1, join="inner").to_numpy(dtype=np.float64)


def along_column(rows: pd.DataFrame, column: str, metric: str) -> tuple[list[Any], FloatArray]:
    """Values of `column` and the metric (seeds, values) under those seeds that have all of them.

    Numbers come in ascending order; names, which have none, in the order in which they were run.
    """
    if rows.duplicated(["seed", column]).any():
        raise ConfigError(f"claim along {column!r}: several sweep points share one value of it; narrow them with `at`")
    table = rows.assign(measured=measure(rows, metric)).pivot(index="seed", columns=column, values="measured")
    if not pd.api.types.is_numeric_dtype(rows[column]):
        table = table[list(pd.unique(rows[column]))]
    table = table.dropna(axis=0)
    return list(table.columns), table.to_numpy(dtype=np.float64)


def means(pairs: FloatArray) -> list[float]:
    """Mean over seeds of each column; NaN where no seed has all of them."""
    return [float(np.mean(column)) if len(column) else float("nan") for column in pairs.T]
