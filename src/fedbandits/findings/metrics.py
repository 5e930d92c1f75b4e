"""What claims and published figures speak of: a metric of the table, or one divided by another column."""

from __future__ import annotations

from dataclasses import replace

import pandas as pd

from fedbandits.simulation.metrics import METRICS, Metric

__all__ = ["DIVISORS", "METRICS", "known_metric", "measure", "metric_of", "parts_of"]

DIVISORS = {
    "_per_client": "clients",
    "_per_decision": "decisions",
    "_per_episode": "episodes",
    "_per_upper_bound": "upper_bound",
    "_per_lower_bound": "lower_bound",
}
"""METRIC followed by one of these is that metric divided by the column."""


def known_metric(name: str) -> bool:
    """Whether `measure` knows the metric."""
    return parts_of(name)[0] in METRICS


def metric_of(name: str) -> Metric:
    """What the metric is called and counted in.

    >>> metric_of("bytes_per_client").title
    'Bytes sent per client'
    """
    base, suffix = parts_of(name)
    metric, per = METRICS[base], suffix.replace("_", " ")
    return replace(metric, name=name, title=metric.title + per, text=metric.text + per, read=None) if per else metric


def measure(rows: pd.DataFrame, name: str) -> pd.Series:
    """The metric in each row."""
    base, suffix = parts_of(name)
    return rows[base] / rows[DIVISORS[suffix]] if suffix else rows[base]


def parts_of(name: str) -> tuple[str, str]:
    """A metric and the suffix that says what it is divided by; no suffix if it stands alone."""
    for suffix in DIVISORS:
        if name.endswith(suffix):
            return name.removesuffix(suffix), suffix
    return name, ""
