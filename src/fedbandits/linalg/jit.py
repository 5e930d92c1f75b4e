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

INSIDE: dict[str, Any] = {"forceinline": True, **PART}
"""Numba's options of `jit_inside`."""


def jit(function: F) -> F:
    """Compile `function` to one-thread machine code, kept on disk for the next process.

    Every operation is done as it is written (IEEE 754, no `fastmath`): sums are added up in their order, and products
    are rounded before they are added to something. A number is then the same in every copy of a function, of which
    there is one in each function that calls it, and whatever is computed beside it; hence a population of n and n
    populations of one give the same bits. Were any of it left to the compiler, it would decide anew for each copy, and
    which of them a process runs depends on what it has loaded first.

    What should be added up in registers, or be rounded once, says so (`linalg.simd`).
    """
    return _compiled(function)


def jit_part(function: F) -> F:
    """As `jit`, for what only compiled functions call (`linalg.parts`): Python cannot."""
    return _compiled(function, **PART)


def jit_inside(function: F) -> F:
    """As `jit_part`, for parts of compiled loops: their code becomes part of whoever calls them, so that nothing has to
    be passed on.
    """
    return _compiled(function, **INSIDE)


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
