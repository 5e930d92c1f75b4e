"""Compiled functions do what is written, operation by operation, whoever they become part of."""

from __future__ import annotations

import importlib
import pkgutil

import numpy as np
import pytest
from numba.core.dispatcher import Dispatcher

import fedbandits
from fedbandits.linalg.jit import INSIDE, jit, jit_inside, jit_nested, jit_part


def _add_up(x, y):
    total = 0.0
    for i in range(len(x)):
        total += x[i] * y[i]
    return total


_part, _inside, _nested = (wrap(lambda x, y: _added(x, y)) for wrap in (jit_part, jit_inside, jit_nested))
_added = jit(_add_up)


@jit
def _by_part(x, y):
    return _part(x, y)


@jit
def _by_inside(x, y):
    return _inside(x, y)


@jit
def _by_nested(x, y):
    return _nested(x, y)


@jit
def _beside_others(x, y):
    """The same sum in a loop that computes another one, which a compiler may like to do together."""
    total = other = 0.0
    for i in range(len(x)):
        total += x[i] * y[i]
        other += x[i] + y[i]
    return total + 0.0 * other


@pytest.mark.parametrize("function", [_added, _by_part, _by_inside, _by_nested, _beside_others])
@pytest.mark.parametrize("length", [2, 3, 8, 64, 1001])
def test_sums_are_added_up_as_python_adds_them(function, length):
    rng = np.random.default_rng(length)
    x, y = rng.normal(size=(2, length)) * 10.0 ** rng.integers(-8, 8, size=(2, length))
    assert function(x, y) == _add_up(x.tolist(), y.tolist())


def test_that_order_and_rounding_show():
    """Else the test above could not fail: other orders give other sums, and so do products that are not rounded."""
    rng = np.random.default_rng(1001)
    x, y = rng.normal(size=(2, 1001)) * 10.0 ** rng.integers(-8, 8, size=(2, 1001))
    assert _add_up(x, y) != _add_up(x[::-1], y[::-1])
    assert _add_up(x, y) != sum((x * y).reshape(7, 143).sum(axis=0))
    a = 1.0 + 2.0**-30
    assert _added(np.array([-1.0, a]), np.array([a * a, a])) == 0.0  # a fused product has a^2 to the last digit


def test_nothing_is_left_to_the_compiler():
    found = 0
    for info in pkgutil.walk_packages(fedbandits.__path__, "fedbandits."):
        if info.name.endswith("__main__"):
            continue
        try:
            module = importlib.import_module(info.name)
        except ModuleNotFoundError as error:
            if (error.name or "").startswith("fedbandits"):
                raise
            continue  # an extra that is not installed
        for value in vars(module).values():
            if isinstance(value, Dispatcher):
                found += 1
                assert not value.targetoptions.get("fastmath"), (info.name, value)
    assert found > 500
    assert "fastmath" not in INSIDE
