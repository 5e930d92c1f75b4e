"""Arrays without reference counts inside compiled functions.

Whenever a compiled function takes an array out of a tuple, it counts a reference, by an instruction that all cores have
to agree on; in a loop over decisions this costs as much as the decisions do. What a function is given lives as long as
the call does: it can be borrowed without counting.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

from numba.core import cgutils, types
from numba.extending import intrinsic


def _inside(typing: Callable[..., Any]) -> Callable[..., Any]:
    """`intrinsic`, whose result takes the arguments of `typing` but for the first."""
    return cast(Callable[..., Any], intrinsic(typing))


def _lent(context: Any, builder: Any, kind: Any, value: Any) -> Any:
    if isinstance(kind, types.Array):
        array = context.make_array(kind)(context, builder, value)
        array.meminfo = cgutils.get_null_value(array.meminfo.type)  # type: ignore[no-untyped-call]
        array.parent = cgutils.get_null_value(array.parent.type)  # type: ignore[no-untyped-call]
        return array._getvalue()
    if isinstance(kind, types.BaseTuple):
        parts: list[Any] = list(kind)  # type: ignore[call-overload]
        for place, part in enumerate(parts):
            lent = _lent(context, builder, part, builder.extract_value(value, place))
            value = builder.insert_value(value, lent, place)
    return value


@_inside
def borrowed(typingctx: Any, value: Any) -> Any:
    """`borrowed(value)`: the array, or the tuple of arrays and other things, without references being counted.

    Take it only of an argument of the function, which the caller holds until it returns, and return nothing of it.
    """

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return _lent(context, builder, signature.args[0], args[0])

    return value(value), codegen
