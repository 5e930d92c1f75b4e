"""One place for compiler options, so that every kernel is compiled alike."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, cast

import numba
from numba.core.dispatcher import Dispatcher
from numba.extending import overload

import fedbandits.linalg.compiling  # noqa: F401  (says why the first call takes long)
from fedbandits.linalg.parts import PART, guarded
from fedbandits.linalg.shelf import Shelf

F = TypeVar("F", bound=Callable[..., Any])

_ANY_ORDER = {"reassoc", "contract", "nsz"}
_IN_ORDER = {"contract", "nsz"}
INSIDE: dict[str, Any] = {"fastmath": _ANY_ORDER, "forceinline": True, **PART}
"""Numba's options of `jit_inside`."""


def jit(function: F) -> F:
    """Compile `function` to one-thread machine code, kept on disk for the next process.

    Sums may be reassociated and fused (`reassoc`, `contract`) so that loops become SIMD; nothing
    may assume that NaN or infinity cannot occur. Kernels work agent by agent in a fixed order,
    hence a population of n and n populations of one give the same bits.
    """
    return _compiled(function, fastmath=_ANY_ORDER)


def jit_in_order(function: F) -> F:
    """As `jit`, but sums are added up in the order in which they are written, though fused with products: where a
    number must not depend on which others are computed beside it.
    """
    return _compiled(function, fastmath=_IN_ORDER)


def jit_exactly(function: F) -> F:
    """As `jit`, but every operation is done as it is written: for code that relies on rounding."""
    return _compiled(function, fastmath=False)


def jit_part(function: F) -> F:
    """As `jit`, for what only compiled functions call (`linalg.parts`): Python cannot."""
    return _compiled(function, fastmath=_ANY_ORDER, **PART)


def jit_part_in_order(function: F) -> F:
    """As `jit_in_order`, for what only compiled functions call."""
    return _compiled(function, fastmath=_IN_ORDER, **PART)


def jit_part_exactly(function: F) -> F:
    """As `jit_exactly`, for what only compiled functions call."""
    return _compiled(function, fastmath=False, **PART)


def jit_inside(function: F) -> F:
    """As `jit_part`, for parts of compiled loops: their code becomes part of whoever calls them, so that nothing has to
    be passed on.
    """
    return _compiled(function, **INSIDE)


def jit_inside_in_order(function: F) -> F:
    """As `jit_inside`, sums being added up as in `jit_in_order`."""
    return _compiled(function, **(INSIDE | {"fastmath": _IN_ORDER}))


def jit_inside_exactly(function: F) -> F:
    """As `jit_inside`, every operation being done as it is written."""
    return _compiled(function, **(INSIDE | {"fastmath": False}))


def jit_nested(function: F) -> F:
    """As `jit_inside`, for parts that contain themselves, compiled for other types, as wrappers do that may be put
    around each other: what the compiler is busy with it cannot begin anew.
    """

    def itself(*args: Any) -> Any:
        return function

    overload(function, strict=False, jit_options=cast(Any, INSIDE))(itself)
    return function


def _compiled(function: F, **options: Any) -> F:
    # what is left open, numba takes from whoever has the function compiled first: its code would depend on that
    chosen: Any = {"forceinline": False, "no_cpython_wrapper": False, "no_cfunc_wrapper": True, **options}
    compiled: Any = numba.njit(nogil=True, error_model="numpy", **chosen)(function)
    if isinstance(compiled, Dispatcher):  # not where the compiler is switched off
        cast(Any, compiled)._cache = Shelf(function)  # type: ignore[no-untyped-call]
        if chosen["no_cpython_wrapper"]:
            compiled = guarded(compiled)
    return cast(F, compiled)
