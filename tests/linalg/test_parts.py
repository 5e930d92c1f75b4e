"""Parts of compiled functions: they have no machine code, and nobody notices but whoever waits for the compiler."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pytest
from numba.core import types
from numba.core.caching import NullCache
from numba.extending import overload

from fedbandits.linalg.jit import jit, jit_inside, jit_nested, jit_part

KERNELS = """
import numpy as np
from fedbandits.linalg.jit import jit, jit_inside, jit_part

@jit_part
def total(x):
    if x.shape[0] == 0:
        raise ValueError("nothing to add up")
    return x.sum()

@jit_inside
def mean(x):
    return total(x) / x.shape[0]

@jit
def spread(x):
    return np.abs(x - mean(x)).sum()

@jit
def least(x):
    return min(x.min(), mean(x))
"""
CALL = """
import sys
sys.path.insert(0, {where!r})
import numpy as np
import kernels
assert kernels.{name}(np.array([1.0, 2.0, 6.0])) == {value}
try:
    kernels.{name}(np.zeros(0))
except ValueError as error:
    assert {name!r} == "least" or str(error) == "nothing to add up", error
print(sum(kernels.mean.stats.cache_hits.values()), sum(kernels.{name}.stats.cache_hits.values()))
"""


def test_functions_compiled_by_several_processes_share_what_they_are_made_of(tmp_path):
    (tmp_path / "kernels.py").write_text(KERNELS)

    def hits(name: str, value: float) -> list[int]:
        code = CALL.format(where=str(tmp_path), name=name, value=value)
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=False)
        assert done.returncode == 0, done.stderr
        return [int(number) for number in done.stdout.split()]

    assert hits("spread", 6.0) == [0, 0]
    assert hits("spread", 6.0) == [0, 1]
    assert hits("least", 1.0) == [1, 0], "the part was on disk"
    assert hits("least", 1.0) == [0, 1]


def test_python_cannot_call_them_and_is_told_so():
    @jit_part
    def half(x):
        return x / 2

    @jit
    def quarter(x):
        return half(half(x))

    assert quarter(8.0) == 2.0
    with pytest.raises(TypeError, match=r"half is part of compiled functions.*py_func"):
        half(8.0)
    assert half.py_func(8.0) == 4.0


def test_whoever_has_a_function_compiled_first_leaves_no_mark_on_it():
    def plain(x):
        return np.sqrt(x) + 1.0

    first, second = jit(plain), jit(plain)

    @jit_inside
    def inside(x):
        return first(x) * 2.0

    @jit
    def outside(x):
        return inside(x)

    for function in (first, second, inside, outside):
        function._cache = NullCache()  # everything is compiled here
    assert outside(4.0) == 6.0
    assert second(4.0) == 3.0
    (by_caller,) = first.inspect_llvm().values()
    (by_python,) = second.inspect_llvm().values()
    assert "alwaysinline" not in by_caller
    assert by_caller.count("\n") == by_python.count("\n")


class Wrapped(NamedTuple):
    inner: Any
    weight: float


def worth_of(decorate: Callable[[Any], Any]) -> Any:
    """A compiled function of things that may be wrapped: the product of their weights, found by a part that calls
    itself for what is inside.
    """

    def worth(thing):
        raise NotImplementedError

    @decorate
    def through(wrapped):
        return worth(wrapped.inner) * wrapped.weight

    @overload(worth)
    def _(thing):
        if isinstance(thing, types.NamedTuple | types.NamedUniTuple):
            return lambda thing: through(thing)
        return lambda thing: thing

    return jit(lambda thing: worth(thing))


def test_wrappers_may_be_put_around_each_other():
    assert worth_of(jit_nested)(Wrapped(Wrapped(Wrapped(2.0, 3.0), 5.0), 7.0)) == 210.0


def test_a_part_that_contains_itself_for_other_types_is_refused():
    with pytest.raises(TypeError, match="through contains itself, for other types: this is what jit_nested is for"):
        worth_of(jit_inside)(Wrapped(Wrapped(2.0, 3.0), 5.0))
