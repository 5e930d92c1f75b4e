"""Vectors of doubles inside compiled functions.

A `Lanes(m)` value is m registers of four doubles, held by the compiled function as an ordinary
local variable. Loops written with these keep their accumulators in registers, which the automatic
vectoriser does not manage for a triangular loop nest. Registers go two by two, as far as there are
two: AVX-512 has one for both, elsewhere LLVM takes them apart again, into two of AVX or four of SSE2
or NEON. What is computed is the same, number by number; sums over lanes have the order of registers.

Every function here is for use within `@jit` functions only. Arrays must be C-contiguous float64
(others are refused when the caller is compiled) and are addressed by a flat offset that is *not*
checked against their size: the caller has to.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, TypeAlias, cast

from llvmlite import ir
from numba.core import cgutils, types
from numba.core.datamodel import models
from numba.extending import intrinsic, register_model

Address: TypeAlias = Any
"""In annotations: what `address` and `target` return."""

Value: TypeAlias = Any
"""In annotations: Lanes, or a scalar."""

REGISTER = 4
"""Doubles per register."""

ADDRESS = types.CPointer(types.float64)  # type: ignore[no-untyped-call]
"""Type of what `address` returns."""

_DOUBLE = ir.DoubleType()
_ONE, _TWO = ir.VectorType(_DOUBLE, REGISTER), ir.VectorType(_DOUBLE, 2 * REGISTER)
"""A register, and two of them side by side, which is one where the machine has some that are wide enough."""
_INT32 = ir.IntType(32)


class Lanes(types.Type):
    """Type of a value of `registers` times four doubles."""

    def __init__(self, registers: int) -> None:
        self.registers = registers
        super().__init__(name=f"Lanes({registers})")


@register_model(Lanes)
class _LanesModel(models.PrimitiveModel):
    def __init__(self, manager: Any, kind: Lanes) -> None:
        super().__init__(manager, kind, ir.LiteralStructType(_vectors(kind)))  # type: ignore[no-untyped-call]


def _vectors(kind: Any) -> list[ir.Type]:
    """What a value is kept in: registers two by two, and the last one by itself where it is left over."""
    if not isinstance(kind, Lanes):
        return [_DOUBLE]
    return [_TWO] * (kind.registers // 2) + [_ONE] * (kind.registers % 2)


def _width(vector: ir.Type) -> int:
    """How many doubles there are in it."""
    return cast(int, vector.count) if isinstance(vector, ir.VectorType) else 1


def _all(vector: ir.Type, value: float) -> ir.Constant:
    """The same number in all places."""
    return ir.Constant(vector, [value] * _width(vector) if isinstance(vector, ir.VectorType) else value)


def _inside(typing: Callable[..., Any]) -> Callable[..., Any]:
    """`intrinsic`, whose result takes the arguments of `typing` but for the first."""
    return cast(Callable[..., Any], intrinsic(typing))


def _is_array(kind: Any) -> bool:
    return isinstance(kind, types.Array) and kind.layout == "C" and kind.dtype == types.float64 and kind.aligned


def _is_value(kind: Any) -> bool:
    return isinstance(kind, Lanes) or kind == types.float64


def _spread(builder: Any, value: Any, vector: ir.Type) -> Any:
    """The scalar `value` in all places of a vector."""
    blank = ir.Constant(vector, ir.Undefined)
    one = builder.insert_element(blank, value, _INT32(0))
    return builder.shuffle_vector(one, blank, ir.Constant(ir.VectorType(_INT32, _width(vector)), [0] * _width(vector)))


def _taken_apart(builder: Any, kind: Any, value: Any, like: Any) -> list[Any]:
    """`value` as a list of vectors (or one scalar), a scalar being spread to the shape of `like`."""
    if isinstance(kind, Lanes):
        return [builder.extract_value(value, v) for v in range(len(_vectors(kind)))]
    if isinstance(like, Lanes):
        return [_spread(builder, value, vector) for vector in _vectors(like)]
    return [value]


def _pack(builder: Any, kind: Any, vectors: list[Any]) -> Any:
    if not isinstance(kind, Lanes):
        return vectors[0]
    value = ir.Constant(ir.LiteralStructType(_vectors(kind)), ir.Undefined)
    for v, vector in enumerate(vectors):
        value = builder.insert_value(value, vector, v)
    return value


def _halves(builder: Any, vector: Any) -> list[Any]:
    """The registers of a vector, in their order."""
    count = _width(vector.type) // REGISTER
    if count == 1:
        return [vector]
    numbers = [range(REGISTER * half, REGISTER * (half + 1)) for half in range(count)]
    masks = [ir.Constant(ir.VectorType(_INT32, REGISTER), list(half)) for half in numbers]
    return [builder.shuffle_vector(vector, ir.Constant(vector.type, ir.Undefined), mask) for mask in masks]


def _pointers(builder: Any, start: Any, offset: Any, kind: Any) -> Any:
    """Addresses of the vectors of a `kind` kept `offset` doubles after `start`."""
    first = 0
    for vector in _vectors(kind):
        place = builder.add(offset, ir.Constant(offset.type, first))
        yield builder.bitcast(builder.gep(start, [place]), vector.as_pointer())
        first += _width(vector)


def _elementwise(emit: Callable[..., Any], *kinds: Any) -> tuple[Any, Callable[[Any, Any, Any, Any], Any]] | None:
    """Typing and code of a function of Lanes and scalars, applied vector by vector."""
    if not all(_is_value(kind) for kind in kinds):
        return None
    wide = {kind for kind in kinds if isinstance(kind, Lanes)}
    if len(wide) > 1:
        return None
    result = wide.pop() if wide else types.float64

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        operands = [_taken_apart(builder, kind, arg, result) for kind, arg in zip(signature.args, args, strict=True)]
        done = [emit(builder, each[0].type, *each) for each in zip(*operands, strict=True)]
        return _pack(builder, result, done)

    return result(*kinds), codegen


def _call(builder: Any, name: str, kind: ir.Type, *args: Any) -> Any:
    suffix = f"v{_width(kind)}f64" if isinstance(kind, ir.VectorType) else "f64"
    form = ir.FunctionType(kind, [kind] * len(args))
    function = cgutils.get_or_insert_function(  # type: ignore[no-untyped-call]
        builder.module, form, f"llvm.{name}.{suffix}"
    )
    return builder.call(function, args)


@_inside
def zero(typingctx: Any, registers: Any) -> Any:
    """`zero(m)`: zeros of type Lanes(m), for a literal m; also the model for `load`."""
    if not isinstance(registers, types.IntegerLiteral):
        return None
    kind = Lanes(registers.literal_value)

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return _pack(builder, kind, [_all(vector, 0.0) for vector in _vectors(kind)])

    return kind(registers), codegen


def _address(array: Any, offset: Any, writable: bool) -> Any:
    if not ((_is_array(array) or array == ADDRESS) and isinstance(offset, types.Integer)):
        return None
    if writable and array != ADDRESS and not array.mutable:
        return None

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        base, step = args
        if array != ADDRESS:
            base = context.make_array(array)(context, builder, base).data
        return builder.gep(base, [context.cast(builder, step, offset, types.intp)])

    return ADDRESS(array, offset), codegen


@_inside
def address(typingctx: Any, array: Any, offset: Any) -> Any:
    """`address(array, offset)`: of the double at flat `offset` of an array, or after an address.

    An address does not keep its array alive. Take it only of an array that is an argument of the
    function: the caller holds that one until the function returns.
    """
    return _address(array, offset, writable=False)


@_inside
def target(typingctx: Any, array: Any, offset: Any) -> Any:
    """`address(array, offset)` for writing: refuses a read-only array."""
    return _address(array, offset, writable=True)


@_inside
def load(typingctx: Any, like: Any, start: Any, offset: Any) -> Any:
    """`load(like, start, offset)`: what lies `offset` after `start`, of the type of `like`."""
    if not (_is_value(like) and start == ADDRESS and isinstance(offset, types.Integer)):
        return None

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        _, base, step = args
        step = context.cast(builder, step, offset, types.intp)
        pointers = _pointers(builder, base, step, like)
        return _pack(builder, like, [builder.load(pointer, align=8) for pointer in pointers])

    return like(like, start, offset), codegen


@_inside
def gather(typingctx: Any, like: Any, start: Any, places: Any, at: Any) -> Any:
    """`gather(like, start, places, at)`: as `load`, but lane j is what lies `places[at + j]` after `start`.

    `places` are integers, C-contiguous.
    """
    if not (isinstance(like, Lanes) and start == ADDRESS and isinstance(at, types.Integer)):
        return None
    if not (isinstance(places, types.Array) and places.layout == "C" and isinstance(places.dtype, types.Integer)):
        return None

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        _, base, listed, first = args
        first = context.cast(builder, first, at, types.intp)
        listed = builder.gep(context.make_array(places)(context, builder, listed).data, [first])
        found, number = [], 0
        for vector in _vectors(like):
            lanes = ir.Constant(vector, ir.Undefined)
            for lane in range(_width(vector)):
                place = builder.load(builder.gep(listed, [ir.Constant(first.type, number)]))
                place = context.cast(builder, place, places.dtype, types.intp)
                value = builder.load(builder.gep(base, [place]), align=8)
                lanes = builder.insert_element(lanes, value, _INT32(lane))
                number += 1
            found.append(lanes)
        return _pack(builder, like, found)

    return like(like, start, places, at), codegen


@_inside
def store(typingctx: Any, start: Any, offset: Any, value: Any) -> Any:
    """`store(start, offset, value)`: write the lanes, or the scalar, `offset` after `start`."""
    if not (_is_value(value) and start == ADDRESS and isinstance(offset, types.Integer)):
        return None

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        base, step, lanes = args
        step = context.cast(builder, step, offset, types.intp)
        vectors = _taken_apart(builder, value, lanes, value)
        for pointer, vector in zip(_pointers(builder, base, step, value), vectors, strict=True):
            builder.store(vector, pointer, align=8)
        return context.get_dummy_value()

    return types.void(start, offset, value), codegen


@_inside
def muladd(typingctx: Any, a: Any, b: Any, c: Any) -> Any:
    """`a b + c`, scalars being spread; rounded once where the machine has a fused instruction.

    Vectors and scalars are fused alike, hence the order in which a kernel walks its tiles does not
    show in the last bit.
    """
    return _elementwise(
        lambda builder, kind, *abc: _call(builder, "fmuladd", kind, *abc),
        a,
        b,
        c,
    )


@_inside
def mul(typingctx: Any, a: Any, b: Any) -> Any:
    """`a b`, scalars being spread."""
    return _elementwise(lambda builder, kind, x, y: builder.fmul(x, y), a, b)


@_inside
def add(typingctx: Any, a: Any, b: Any) -> Any:
    """`a + b`, scalars being spread."""
    return _elementwise(lambda builder, kind, x, y: builder.fadd(x, y), a, b)


@_inside
def root(typingctx: Any, a: Any) -> Any:
    """Square root, that of a negative number (a rounded zero) being zero and of NaN being NaN."""

    def emit(builder: Any, kind: ir.Type, x: Any) -> Any:
        nought = _all(kind, 0.0)
        negative = builder.fcmp_ordered("<", x, nought)
        return _call(builder, "sqrt", kind, builder.select(negative, nought, x))

    return _elementwise(emit, a)


@_inside
def positive(typingctx: Any, a: Any) -> Any:
    """max(a, 0); NaN stays NaN."""

    def emit(builder: Any, kind: ir.Type, x: Any) -> Any:
        nought = _all(kind, 0.0)
        return builder.select(builder.fcmp_ordered("<=", x, nought), nought, x)

    return _elementwise(emit, a)


@_inside
def where_positive(typingctx: Any, a: Any, b: Any) -> Any:
    """b where a > 0, and 0 elsewhere, scalars being spread."""

    def emit(builder: Any, kind: ir.Type, x: Any, y: Any) -> Any:
        nought = _all(kind, 0.0)
        return builder.select(builder.fcmp_ordered(">", x, nought), y, nought)

    return _elementwise(emit, a, b)


@_inside
def between(typingctx: Any, a: Any, low: Any, high: Any) -> Any:
    """min(max(a, low), high), scalars being spread; NaN stays NaN."""

    def emit(builder: Any, kind: ir.Type, x: Any, least: Any, most: Any) -> Any:
        x = builder.select(builder.fcmp_ordered("<", x, least), least, x)
        return builder.select(builder.fcmp_ordered(">", x, most), most, x)

    return _elementwise(emit, a, low, high)


@_inside
def where_within(typingctx: Any, a: Any, low: Any, high: Any, b: Any) -> Any:
    """0 where a < low, infinity where a > high, and b elsewhere, scalars being spread."""

    def emit(builder: Any, kind: ir.Type, x: Any, least: Any, most: Any, y: Any) -> Any:
        nought, endless = _all(kind, 0.0), _all(kind, math.inf)
        y = builder.select(builder.fcmp_ordered(">", x, most), endless, y)
        return builder.select(builder.fcmp_ordered("<", x, least), nought, y)

    return _elementwise(emit, a, low, high, b)


@_inside
def any_at_least(typingctx: Any, a: Any, b: Any) -> Any:
    """Whether a >= b in any lane; not where one of them is NaN."""
    if not (isinstance(a, Lanes) and a == b):
        return None

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        ours, others = (_taken_apart(builder, a, each, a) for each in args)
        found = ir.Constant(ir.IntType(1), 0)
        for x, y in zip(ours, others, strict=True):
            bits = ir.IntType(_width(x.type))
            reached = builder.bitcast(builder.fcmp_ordered(">=", x, y), bits)
            found = builder.or_(found, builder.icmp_unsigned("!=", reached, bits(0)))
        return found

    return types.boolean(a, b), codegen


@_inside
def raised(typingctx: Any, a: Any, b: Any) -> Any:
    """a 2^n, where n are the lowest bits of b: they are added to the exponent of a."""

    def emit(builder: Any, kind: ir.Type, x: Any, y: Any) -> Any:
        whole = ir.VectorType(ir.IntType(64), _width(kind)) if isinstance(kind, ir.VectorType) else ir.IntType(64)
        by = ir.Constant(whole, [52] * _width(kind) if isinstance(kind, ir.VectorType) else 52)
        lifted = builder.add(builder.bitcast(x, whole), builder.shl(builder.bitcast(y, whole), by))
        return builder.bitcast(lifted, kind)

    return _elementwise(emit, a, b)


@_inside
def over(typingctx: Any, a: Any, b: Any) -> Any:
    """`a / b`, scalars being spread."""
    return _elementwise(lambda builder, kind, x, y: builder.fdiv(x, y), a, b)


@_inside
def total(typingctx: Any, a: Any) -> Any:
    """Sum of all lanes, in a fixed order: registers first, then (0 + 2) + (1 + 3)."""
    if not isinstance(a, Lanes):
        return None

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        vectors = _taken_apart(builder, a, args[0], a)
        first, *others = [register for vector in vectors for register in _halves(builder, vector)]
        for other in others:
            first = builder.fadd(first, other)
        item = [builder.extract_element(first, _INT32(k)) for k in range(REGISTER)]
        even = builder.fadd(item[0], item[2])
        odd = builder.fadd(item[1], item[3])
        return builder.fadd(even, odd)

    return types.float64(a), codegen
