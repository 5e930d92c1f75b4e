"""What claims may speak of, and how it is read and shown."""

import math

import numpy as np
import pandas as pd
import pytest

from fedbandits.findings.metrics import METRICS, known_metric, measure, metric_of
from fedbandits.findings.numbers import number
from fedbandits.findings.results import Results
from fedbandits.simulation.metrics import Metric

ROW = pd.DataFrame({"regret": [6.0], "clients": [3], "decisions": [100], "upper_bound": [12.0], "bytes": [300]})


@pytest.mark.parametrize(
    ("name", "value"),
    [("regret", 6.0), ("regret_per_client", 2.0), ("regret_per_decision", 0.06), ("regret_per_upper_bound", 0.5)],
)
def test_measures(name: str, value: float) -> None:
    assert measure(ROW, name).tolist() == [value]


def test_known_are_the_table_and_what_can_be_divided() -> None:
    assert all(known_metric(name) for name in (*METRICS, "bytes_per_client", "regret_per_lower_bound", "epsilon"))
    assert not any(known_metric(name) for name in ("regrets_per_client", "regret_per_clients", "clients", ""))


def test_a_divided_metric_is_called_what_it_is() -> None:
    shown = metric_of("bytes_per_client")
    assert (shown.name, shown.title, shown.unit) == ("bytes_per_client", "Bytes sent per client", "B")
    assert metric_of("regret") is METRICS["regret"]


def test_numbers_are_readable() -> None:
    values = (1234567.8, 999.6, 12.34, 0.01234, -math.inf, math.nan)
    assert [number(value) for value in values] == ["1,234,568", "1,000", "12.3", "0.0123", "minus infinite", "unknown"]


def test_a_new_metric_is_one_entry(monkeypatch: pytest.MonkeyPatch) -> None:
    """An entry in the table is a column of traces, a mean in summaries, and something claims may speak of."""
    import fedbandits as fb
    from fedbandits.findings.claims import parse_claims
    from fedbandits.studies.compare import comparison

    double = Metric("doubled", "Doubled", "twice the regret", read=lambda trace: 2 * trace.regret, summarised=True)
    monkeypatch.setitem(METRICS, "doubled", double)  # type: ignore[misc]
    environment = fb.environments.Linear(clients=2, dim=2, arms=3)
    results: Results = comparison({"one": fb.algorithms.Random()}, environment, horizon=10, seeds=3)
    np.testing.assert_allclose(results.frame["doubled"], 2 * results.frame["regret"])
    summary = results.summary()
    np.testing.assert_allclose(summary["doubled"], 2 * summary["regret"])
    claim = {"kind": "between", "text": "t", "metric": "doubled_per_client", "of": "one", "low": 0.0}
    assert known_metric("doubled")
    assert parse_claims([claim])[0].judge(results.frame, results.final()).verdict == "holds"
