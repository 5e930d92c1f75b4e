"""Gradients of the squared loss for networks of one hidden layer: both products of a step in registers, gates between.

For f = scale <w, a>, a = max(W z, 0), z being an input and, where there are biases, a 1 behind it, and gaps e = scale
(f - y), all that a sum over observations needs is g_j = sum_s 1(a_js > 0) e_s z_s of each unit:

    sum e grad_{W_j} f = w_j g_j,    sum e grad_{w_j} f = <W_j, g_j>,

so that a step takes two products, W z and that of gated gaps with z, and no third. Observations go through in blocks
that stay in the fastest cache, twelve at a time and four units at once; those that fill a block up are zeros, bias
included, whose gates are shut.
"""

from __future__ import annotations

from typing import TypeAlias

import numpy as np

from fedbandits.contract.arrays import FloatArray
from fedbandits.linalg.jit import jit, jit_inside, jit_part
from fedbandits.linalg.kernels import axpy, dot
from fedbandits.linalg.simd import (
    Address,
    Value,
    add,
    address,
    load,
    muladd,
    positive,
    store,
    target,
    where_positive,
    zero,
)

BLOCK = 48
"""Observations that go through together, a multiple of twelve."""

Packed: TypeAlias = tuple[FloatArray, FloatArray]
"""Observations, filled up to a multiple of four: block after block, coordinate by coordinate, (height, count) each; and
all of them one by one, (count, width), width being height filled up likewise."""


@jit_part
def filled(count: int) -> int:
    """The next multiple of four."""
    return (count + 3) // 4 * 4


@jit
def pack(inputs: FloatArray, end: int, bias: int) -> Packed:
    """The first `end` columns of `inputs` (d, c), with a 1 each where biased."""
    d, last = inputs.shape[0], filled(end)
    height, width = d + bias, filled(d + bias)
    across, along = np.zeros(height * last), np.zeros(last * width)
    for begin in range(0, last, BLOCK):
        count, some = min(BLOCK, last - begin), min(BLOCK, end - begin)
        block = across[begin * height : (begin + count) * height].reshape(height, count)
        rows = along[begin * width : (begin + count) * width].reshape(count, width)
        for j in range(d):
            for s in range(some):
                block[j, s] = inputs[j, np.uint64(begin + s)]
        if bias:
            block[d, :some] = 1.0
        for s in range(count):
            for j in range(height):
                rows[s, j] = block[j, s]
    return across, along


@jit
def room(height: int, units: int) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Where `add_slope` writes in between: units of a block, its gaps, and g."""
    return np.empty(units * BLOCK), np.empty(BLOCK), np.empty(units * filled(height))


@jit
def add_slope(
    point: FloatArray,
    units: int,
    bias: int,
    scale: float,
    packed: Packed,
    targets: FloatArray,
    spaces: tuple[FloatArray, FloatArray, FloatArray],
    out: FloatArray,
) -> None:
    """Add the sum of (f - target) grad f over one agent's `packed` observations to `out` (p,)."""
    across, along = packed
    level, gaps, sums = spaces
    last, end = filled(len(targets)), len(targets)
    height = (len(point) - units - bias) // units
    width, head = filled(height), units * height
    if len(across) != last * height or len(along) != last * width or len(sums) != units * width:
        raise ValueError("observations were packed for another network")
    sums[:] = 0.0
    constant, total = point[len(point) - 1] if bias else 0.0, 0.0
    for begin in range(0, last, BLOCK):
        count, some = min(BLOCK, last - begin), min(BLOCK, end - begin)
        gaps[:count] = constant
        _enter(point, units, height, head, across, begin * height, count, level, gaps)
        for s in range(some):
            gaps[s] = scale * (scale * gaps[s] - targets[begin + s])
            total += gaps[s]
        gaps[some:count] = 0.0
        _shut(units, count, level, gaps)
        _return(units, width, count, level, along, begin * width, sums)
    for j in range(units):
        own, unit = address(sums, j * width), j * height
        axpy(point[head + j], own, target(out, unit), height)
        out[head + j] += dot(address(point, unit), own, height)
    if bias:
        out[len(point) - 1] += total


@jit_inside
def _four(
    none: Value, weights: Address, across: int, along: int, rows: Address, pitch: int, count: int
) -> tuple[Value, Value, Value, Value]:
    """sum_k weights[j across + k along] rows[k pitch], j = 0 to 3, over the columns that `none` spans."""
    a, b, c, d = none, none, none, none
    for _ in range(count):
        x = load(none, rows, 0)
        a = muladd(load(0.0, weights, 0), x, a)
        b = muladd(load(0.0, weights, across), x, b)
        c = muladd(load(0.0, weights, 2 * across), x, c)
        d = muladd(load(0.0, weights, 3 * across), x, d)
        weights, rows = address(weights, along), address(rows, pitch)
    return a, b, c, d


@jit_inside
def _one(none: Value, weights: Address, along: int, rows: Address, pitch: int, count: int) -> Value:
    """As `_four`, j = 0 alone."""
    a = none
    for _ in range(count):
        a = muladd(load(0.0, weights, 0), load(none, rows, 0), a)
        weights, rows = address(weights, along), address(rows, pitch)
    return a


@jit_part
def _enter_columns(
    none: Value,
    point: Address,
    units: int,
    height: int,
    rows: Address,
    count: int,
    head: Address,
    level: Address,
    gaps: Address,
) -> None:
    """Write max(W z, 0) of as many observations as `none` has lanes to `level`, and add <w, .> to `gaps`."""
    found = load(none, gaps, 0)
    whole = units - units % 4
    for j in range(0, whole, 4):
        a, b, c, d = _four(none, address(point, j * height), height, 1, rows, count, height)
        a, b, c, d = positive(a), positive(b), positive(c), positive(d)
        store(level, j * count, a)
        store(level, (j + 1) * count, b)
        store(level, (j + 2) * count, c)
        store(level, (j + 3) * count, d)
        found = muladd(load(0.0, head, j), a, found)
        found = muladd(load(0.0, head, j + 1), b, found)
        found = muladd(load(0.0, head, j + 2), c, found)
        found = muladd(load(0.0, head, j + 3), d, found)
    for j in range(whole, units):
        a = positive(_one(none, address(point, j * height), 1, rows, count, height))
        store(level, j * count, a)
        found = muladd(load(0.0, head, j), a, found)
    store(gaps, 0, found)


@jit_part
def _enter(
    point: FloatArray,
    units: int,
    height: int,
    head: int,
    packed: FloatArray,
    at: int,
    count: int,
    level: FloatArray,
    gaps: FloatArray,
) -> None:
    """`_enter_columns` of a block that begins `at`."""
    weights, last, out, ends = address(point, 0), address(point, head), target(level, 0), target(gaps, 0)
    rows = address(packed, at)
    s = 0
    while s + 12 <= count:
        _enter_columns(
            zero(3), weights, units, height, address(rows, s), count, last, address(out, s), address(ends, s)
        )
        s += 12
    while s < count:
        _enter_columns(
            zero(1), weights, units, height, address(rows, s), count, last, address(out, s), address(ends, s)
        )
        s += 4


@jit_part
def _shut(units: int, count: int, level: FloatArray, gaps: FloatArray) -> None:
    """Let `level` (units, count) be the gap where it is positive, and 0 elsewhere."""
    row, ends, none = target(level, 0), address(gaps, 0), zero(1)
    for _ in range(units):
        for s in range(0, count, 4):
            store(row, s, where_positive(load(none, row, s), load(none, ends, s)))
        row = address(row, count)


@jit_part
def _return_columns(
    none: Value, units: int, width: int, level: Address, count: int, rows: Address, sums: Address
) -> None:
    """sums[j] += sum_s level[j, s] rows[s], over the columns that `none` spans."""
    whole = units - units % 4
    for j in range(0, whole, 4):
        a, b, c, d = _four(none, address(level, j * count), count, 1, rows, width, count)
        store(sums, j * width, add(load(none, sums, j * width), a))
        store(sums, (j + 1) * width, add(load(none, sums, (j + 1) * width), b))
        store(sums, (j + 2) * width, add(load(none, sums, (j + 2) * width), c))
        store(sums, (j + 3) * width, add(load(none, sums, (j + 3) * width), d))
    for j in range(whole, units):
        a = _one(none, address(level, j * count), 1, rows, width, count)
        store(sums, j * width, add(load(none, sums, j * width), a))


@jit_part
def _return(
    units: int, width: int, count: int, level: FloatArray, packed: FloatArray, at: int, sums: FloatArray
) -> None:
    """`_return_columns` of a block that begins `at`."""
    gated, rows, out = address(level, 0), address(packed, at), target(sums, 0)
    c = 0
    while c + 12 <= width:
        _return_columns(zero(3), units, width, gated, count, address(rows, c), address(out, c))
        c += 12
    if c + 8 <= width:
        _return_columns(zero(2), units, width, gated, count, address(rows, c), address(out, c))
        c += 8
    if c < width:
        _return_columns(zero(1), units, width, gated, count, address(rows, c), address(out, c))
