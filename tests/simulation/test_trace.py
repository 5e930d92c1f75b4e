"""Traces and their tables."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import fedbandits as fb
from fedbandits.contract.ledger import DIRECTIONS, UNITS
from fedbandits.simulation.metrics import METRICS
from fedbandits.simulation.trace import Trace, completed


def trace_of(horizon, **more):
    steps = np.arange(1, horizon + 1)
    weights = np.arange(1, 13).reshape(3, 4)
    return Trace(
        regret=steps * 0.5,
        reward=steps * 2.0,
        chance=steps * 0.5,
        regret_by_client=np.array([horizon * 0.2, horizon * 0.3]),
        decisions=2 * steps,
        syncs=steps // 3,
        counts=steps[:, None, None] * weights,
        seconds=0.5,
        **more,
    )


def test_flows_and_totals():
    trace = trace_of(4)
    assert trace.uplink.messages.tolist() == [1, 2, 3, 4]
    assert trace.downlink.scalars.tolist() == [7, 14, 21, 28]
    assert trace.peerlink.bytes.tolist() == [12, 24, 36, 48]
    assert trace.messages.tolist() == [15, 30, 45, 60]
    assert trace.scalars.tolist() == [21, 42, 63, 84]
    assert trace.bytes.tolist() == [24, 48, 72, 96]
    assert trace.decisions_per_second == 16


@given(st.integers(1, 60), st.integers(1, 80))
def test_thinning(horizon, points):
    """At most `points` rows, strictly increasing steps, the last one included, values as they are at those steps."""
    frame = trace_of(horizon).frame(points)
    full = trace_of(horizon).frame()
    assert 1 <= len(frame) <= min(points, horizon)
    assert len(frame) == min(points, horizon)
    assert frame["step"].iloc[-1] == horizon
    assert (np.diff(frame["step"]) > 0).all()
    thinned = full[full["step"].isin(frame["step"])].reset_index(drop=True)
    assert frame.equals(thinned)
    assert np.diff(frame["step"], prepend=0).max() <= horizon / min(points, horizon) + 1


@pytest.mark.parametrize("points", [0, -1])
def test_no_points_is_an_error(points):
    with pytest.raises(ValueError, match="points"):
        trace_of(5).frame(points)


def test_columns():
    frame = trace_of(3).frame()
    assert frame["step"].tolist() == [1, 2, 3]
    for name in ("decisions", "regret", "reward", "syncs", "messages", "scalars", "bytes"):
        np.testing.assert_array_equal(frame[name], getattr(trace_of(3), name))
    for way, direction in enumerate(DIRECTIONS):
        for unit, name in enumerate(UNITS):
            np.testing.assert_array_equal(frame[f"{direction}_{name}"], trace_of(3).counts[:, way, unit])
    total = frame["up_bytes"] + frame["down_bytes"] + frame["peer_bytes"]
    np.testing.assert_array_equal(frame["bytes"], total)


def test_columns_come_in_the_order_of_the_table():
    ways = [f"{way}_{unit}" for way in DIRECTIONS for unit in UNITS]
    assert list(trace_of(3).frame()) == [
        *("step", "decisions", "regret", "reward", "normalised_reward", "syncs", "messages", "scalars", "bytes"),
        *("coverage", "epsilon", "honest_regret", "first_regret", "later_regret", "first_scalars", "first_messages"),
        *("episodes", "finished_reward", "finished_regret", "recent_return", "bayes_regret"),
        *("upper_bound", "lower_bound", "smallest_gap", *ways),
    ]


def test_every_metric_of_a_trace_is_a_column_and_is_explained():
    held = [name for name, metric in METRICS.items() if metric.read is not None]
    assert list(trace_of(3).frame()) == ["step", *held]
    for name, metric in METRICS.items():
        assert metric.name == name
        assert metric.title
        assert metric.text
        assert not metric.text.endswith(".")


def test_everything_counted_is_cumulative():
    env = fb.environments.Linear(clients=3, dim=3, arms=4)
    trace = fb.simulate(fb.algorithms.DisLinUCB(threshold=0.3), env, 40)
    for array in (trace.regret, trace.decisions, trace.syncs, trace.messages, trace.scalars, trace.bytes):
        assert array.shape == (40,)
        assert (np.diff(array) >= 0).all()
    assert trace.counts.shape == (40, 3, 4)
    assert trace.seconds > 0
    assert trace.decisions_per_second > 0


def test_privacy_and_bounds_are_columns():
    told = trace_of(6, gauges={"epsilon": np.array([0.0, 0.5, 0.5, 1.0, 1.0, 1.5])}, bounds={"upper": 40.0})
    frame = told.frame(3)
    assert frame["step"].tolist() == [2, 4, 6]
    assert frame["epsilon"].tolist() == [0.5, 1.0, 1.5]
    assert frame["upper_bound"].tolist() == [40.0] * 3
    assert frame["lower_bound"].isna().all()


def test_what_is_not_known_is_nan():
    frame = trace_of(3).frame()
    assert trace_of(3).privacy is None
    for name in ("epsilon", "upper_bound", "lower_bound", "coverage"):
        assert frame[name].isna().all()
        assert frame[name].dtype == np.float64


def test_a_bound_is_upper_or_lower():
    with pytest.raises(ValueError, match="bounds: uper is none of upper, lower"):
        trace_of(3, bounds={"uper": 1.0})


def test_old_frames_are_completed_and_new_ones_left_alone():
    new = trace_of(4, gauges={"epsilon": np.arange(4.0)}).frame()
    assert completed(new).equals(new)
    lacking = ["coverage", "epsilon", "lower_bound"]
    old = completed(new.drop(columns=lacking))
    assert set(old) == set(new)
    assert old[lacking].isna().all(axis=None)
    assert old["regret"].equals(new["regret"])


def test_bounds_that_say_nothing_are_no_numbers():
    frame = trace_of(3, bounds={"upper": np.inf, "lower": 0.0}).frame()
    assert frame["upper_bound"].isna().all()
    assert frame["lower_bound"].isna().all()
