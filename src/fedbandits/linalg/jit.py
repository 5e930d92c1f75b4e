"""One place for compiler options, so that every kernel is compiled alike."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, cast

import numba
from numba.core.dispatcher import Dispatcher

import fedbandits.linalg.compiling  # noqa: F401  (says why the first call takes long)
from fedbandits.linalg.shelf import Shelf

F = TypeVar("F", bound=Callable[..., Any])


def jit(function: F) -> F:
    """Compile `function` to one-thread machine code, kept on disk for the next process.

    Sums may be reassociated and fused (`reassoc`, `contract`) so that loops become SIMD; nothing
    may assume that NaN or infinity cannot occur. Kernels work agent by agent in a fixed order,
    hence a population of n and n populations of one give the same bits.
    """
    return _compiled(function, fastmath={"reassoc", "contract", "nsz"})


def jit_in_order(function: F) -> F:
    """As `jit`, but sums are added up in the order in which they are written, though fused with products: where a
    number must not depend on which others are computed beside it.
    """
    return _compiled(function, fastmath={"contract", "nsz"})


def jit_exactly(function: F) -> F:
    """As `jit`, but every operation is done as it is written: for code that relies on rounding."""
    return _compiled(function, fastmath=False)


def jit_inside(function: F) -> F:
    """As `jit`, for parts of compiled loops: their code becomes part of whoever calls them, so that nothing has to be
    passed on.
    """
    return _compiled(function, fastmath={"reassoc", "contract", "nsz"}, forceinline=True)


def _compiled(function: F, **options: Any) -> F:
    compiled: Any = numba.njit(nogil=True, error_model="numpy", **options)(function)
    if isinstance(compiled, Dispatcher):  # not where the compiler is switched off
        cast(Any, compiled)._cache = Shelf(function)  # type: ignore[no-untyped-call]
    return cast(F, compiled)
