"""Means and standard errors at the end of each run, in all the columns that tables and pictures need.

What `Results.summary` gives is taken as it is; the rest (messages each way, totals, regret per client) is computed from
the last rows in the same way.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pandas as pd

from fedbandits.contract.ledger import DIRECTIONS, UNITS

if TYPE_CHECKING:
    from fedbandits.findings.results import Results

_UNITS_SHOWN = tuple(unit for unit in UNITS if unit != "signals")
COLUMNS = (
    "regret",
    "regret_per_client",
    "syncs",
    *_UNITS_SHOWN,
    *(f"{way}_{unit}" for way in DIRECTIONS for unit in _UNITS_SHOWN),
    "decisions_per_second",
)


def summarise(results: Results) -> pd.DataFrame:
    """One row per algorithm and sweep point: mean `X` and standard error `X_se` of every X in `COLUMNS`."""
    given = results.summary().set_index(results.key)
    lacking = [name for name in COLUMNS if name not in given]
    final = results.final()
    final["regret_per_client"] = final["regret"] / final["clients"]
    if "decisions_per_second" in lacking:
        final["decisions_per_second"] = final["decisions"] / final["seconds"].where(final["seconds"] > 0)
    grouped = final.groupby(results.key, sort=False, dropna=False)[lacking]
    added = pd.concat([grouped.mean(), grouped.sem().add_suffix("_se")], axis=1).reindex(given.index)
    return pd.concat([given, added], axis=1).reset_index()
