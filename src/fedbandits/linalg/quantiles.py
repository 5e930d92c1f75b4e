"""Quantile functions of scipy inside compiled functions, to the same bits.

Code that calls a function by its address is kept on disk like any other, as the address is not part of it: it is found
by `address_of` in every process, and handed over.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any, Literal, cast

from llvmlite import ir
from numba.core import types
from numba.extending import get_cython_function_address, intrinsic

_NAMES = {"normal": "ndtri", "beta": "__pyx_fuse_0betaincinv"}


@cache
def address_of(law: Literal["normal", "beta"]) -> int:
    """Where scipy's quantile function of a law is: what `normal_quantile` and `beta_quantile` take first."""
    return int(get_cython_function_address("scipy.special.cython_special", _NAMES[law]))


def _calling(builder: Any, address: Any, arguments: list[Any]) -> Any:
    double, whole = ir.DoubleType(), ir.IntType(32)
    kind = ir.FunctionType(double, [*[double] * len(arguments), whole])
    function = builder.inttoptr(address, kind.as_pointer())
    return builder.call(function, [*arguments, whole(0)])  # the last says whether to look for a subclass: there is none


def _inside(typing: Callable[..., Any]) -> Callable[..., float]:
    """`intrinsic`, whose result takes the arguments of `typing` but for the first."""
    return cast(Callable[..., float], intrinsic(typing))


@_inside
def normal_quantile(typingctx: Any, address: Any, level: Any) -> Any:
    """`normal_quantile(address, level)`: `scipy.special.ndtri(level)`."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return _calling(builder, args[0], [args[1]])

    return types.float64(types.int64, types.float64), codegen


@_inside
def beta_quantile(typingctx: Any, address: Any, wins: Any, losses: Any, level: Any) -> Any:
    """`beta_quantile(address, a, b, level)`: `scipy.special.betaincinv(a, b, level)`."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return _calling(builder, args[0], list(args[1:]))

    return types.float64(types.int64, types.float64, types.float64, types.float64), codegen
