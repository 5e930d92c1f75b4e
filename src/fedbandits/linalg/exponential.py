"""exp for loops: without branches or calls, so that the compiler turns loops over it into SIMD.

With n the whole number nearest to x / log 2 and r = x - n log 2, |r| <= 0.35: exp(x) = 2^n exp(r), where exp(r) is its
Taylor polynomial of degree 13 (off by less than 10^-17) and 2^n is added to the exponent of its result. n itself is
read off the low bits of x / log 2 + 1.5 * 2^52, a number so large that its last bit counts ones.

The polynomial is a chain in which every operation waits for the one before. `exponentials` takes several registers
through it side by side, to the same bits.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, cast

from llvmlite import ir
from numba.core import types
from numba.extending import intrinsic

from fedbandits.linalg.jit import jit, jit_part
from fedbandits.linalg.simd import Value, add, between, mul, raised, where_within

_LARGE = 1.5 * 2.0**52
_LOWEST, _HIGHEST = -708.0, 709.0
_PER_LOG_2 = 1.4426950408889634
_LOG_2, _LOG_2_REST = 6.93147180369123816490e-01, 1.90821492927058770002e-10
"""log 2 in two parts, the first with zeros at its end: n times it is exact."""
_C2, _C3, _C4, _C5, _C6, _C7, _C8, _C9, _C10, _C11, _C12, _C13 = (1.0 / math.factorial(k) for k in range(2, 14))


@jit
def exponential(x: float) -> float:
    """exp(x), within 2 units in the last place; 0 below -708, infinite above 709."""
    within = min(max(x, _LOWEST), _HIGHEST)
    shifted = within * _PER_LOG_2 + _LARGE
    n = shifted - _LARGE
    r = (within - n * _LOG_2) - n * _LOG_2_REST
    low = _C7 + r * (_C8 + r * (_C9 + r * (_C10 + r * (_C11 + r * (_C12 + r * _C13)))))
    value = 1.0 + r * (1.0 + r * (_C2 + r * (_C3 + r * (_C4 + r * (_C5 + r * (_C6 + r * low))))))
    scaled: float = _as_double(_as_bits(value) + (_as_bits(shifted) << 52))
    return 0.0 if x < _LOWEST else math.inf if x > _HIGHEST else scaled


@jit_part
def exponentials(x: Value) -> Value:
    """`exponential` of every double in Lanes."""
    within = between(x, _LOWEST, _HIGHEST)
    shifted = add(mul(within, _PER_LOG_2), _LARGE)
    n = add(shifted, -_LARGE)
    r = add(add(within, mul(n, -_LOG_2)), mul(n, -_LOG_2_REST))
    value = add(mul(r, _C13), _C12)
    value = add(mul(r, value), _C11)
    value = add(mul(r, value), _C10)
    value = add(mul(r, value), _C9)
    value = add(mul(r, value), _C8)
    value = add(mul(r, value), _C7)
    value = add(mul(r, value), _C6)
    value = add(mul(r, value), _C5)
    value = add(mul(r, value), _C4)
    value = add(mul(r, value), _C3)
    value = add(mul(r, value), _C2)
    value = add(mul(r, value), 1.0)
    value = add(mul(r, value), 1.0)
    return where_within(x, _LOWEST, _HIGHEST, raised(value, shifted))


def _reinterpreting(source: Any, target: Any, kind: ir.Type) -> Callable[..., Any]:
    def typing(context: Any, value: Any) -> Any:
        def generate(_: Any, builder: Any, signature: Any, values: Any) -> Any:
            return builder.bitcast(values[0], kind)

        return target(source), generate

    return cast(Callable[..., Any], intrinsic(typing))


_as_bits = _reinterpreting(types.float64, types.int64, ir.IntType(64))
_as_double = _reinterpreting(types.int64, types.float64, ir.DoubleType())
