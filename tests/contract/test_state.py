"""Snapshots."""

from __future__ import annotations

import numpy as np
import pytest

from fedbandits.contract.state import Stateful


class Inner(Stateful):
    keeps = ("values", "growing")
    resizes = frozenset({"growing"})

    def __init__(self):
        self.values = np.arange(3.0)
        self.growing = np.zeros(2)


class Outer(Stateful):
    keeps = ("count", "inner")

    def __init__(self):
        self.count = np.zeros((), dtype=np.int64)
        self.inner = Inner()


def snapshot(outer):
    return {name: array.tolist() for name, array in outer.state().items()}


def test_names_are_dotted_paths():
    assert snapshot(Outer()) == {"count": 0, "inner.values": [0, 1, 2], "inner.growing": [0, 0]}


def test_a_snapshot_is_a_copy_and_loading_is_too():
    outer = Outer()
    state = outer.state()
    outer.inner.values[:] = 9
    assert state["inner.values"].tolist() == [0, 1, 2]
    outer.load(state)
    assert outer.inner.values.tolist() == [0, 1, 2]
    state["inner.values"][:] = 7
    state["inner.growing"][:] = 7
    assert snapshot(outer) == snapshot(Outer())


def test_loading_writes_in_place():
    """Others may hold the array: it stays the same object."""
    outer = Outer()
    held = outer.inner.values
    outer.load(outer.state() | {"inner.values": np.full(3, 5.0)})
    assert held.tolist() == [5, 5, 5]
    assert outer.inner.values is held


def test_what_grows_may_change_its_shape_and_nothing_else_may():
    outer = Outer()
    outer.load(outer.state() | {"inner.growing": np.ones(6)})
    assert outer.inner.growing.tolist() == [1] * 6
    with pytest.raises(ValueError, match=r"inner\.values is float64 of shape \(4,\)"):
        outer.load(outer.state() | {"inner.values": np.ones(4)})


@pytest.mark.parametrize(
    ("change", "match"),
    [
        ({"count": None}, "lacks count"),
        ({"inner.values": None}, r"lacks inner\.values"),
        ({"inner.growing": None}, r"lacks inner\.growing"),
        ({"surplus": np.zeros(1)}, "unknown surplus"),
        ({"inner.surplus": np.zeros(1)}, r"unknown inner\.surplus"),
        ({"count": np.zeros(())}, "count is float64"),
        ({"count": np.zeros(1, dtype=np.int64)}, r"count is int64 of shape \(1,\)"),
        ({"inner.growing": np.zeros(2, dtype=np.float32)}, r"inner\.growing is float32"),
        ({"inner.growing": np.zeros((2, 2))}, r"inner\.growing"),
    ],
)
def test_what_does_not_fit_is_refused_before_anything_has_changed(change, match):
    outer = Outer()
    state = outer.state() | {"count": np.array(4), "inner.values": np.full(3, 8.0)}
    for name, array in change.items():
        if array is None:
            del state[name]
        else:
            state[name] = array
    with pytest.raises(ValueError, match=match):
        outer.load(state)
    assert snapshot(outer) == snapshot(Outer())


def test_a_snapshot_survives_a_file(tmp_path):
    outer = Outer()
    outer.inner.values[:] = [1e-300, -0.0, np.pi]
    np.savez(tmp_path / "state.npz", **outer.state())
    other = Outer()
    with np.load(tmp_path / "state.npz", allow_pickle=False) as saved:
        other.load(dict(saved))
    assert other.inner.values.tobytes() == outer.inner.values.tobytes()
