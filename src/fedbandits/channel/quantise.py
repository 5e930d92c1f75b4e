"""Quantised statistics: fewer bits for every number that is sent."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Annotated, ClassVar

import numpy as np
from pydantic import Field

from fedbandits.channel.field_arrays import FieldArrays
from fedbandits.channel.stage import End, check_star
from fedbandits.contract.arrays import Array, FloatArray, IntArray
from fedbandits.contract.catalogue import About, AboutStage
from fedbandits.contract.errors import ConfigError
from fedbandits.contract.facts import Distortion
from fedbandits.contract.messages import Message
from fedbandits.contract.parameters import parameters
from fedbandits.contract.problem import Problem
from fedbandits.contract.streams import Streams
from fedbandits.contract.wire import Direction, DType, Free, Ragged, Utterance, WireField
from fedbandits.linalg.semidefinite import nearest_semidefinite

_SCALE = ".scale"


@parameters
class Quantise:
    """Statistics in `bits` bits per scalar, by stochastic rounding, with error feedback for increments.

    A field v becomes whole numbers q = floor(v/s + u) with u uniform in [0, 1) for each entry, s = max |v| /
    (2^(bits-1) - 1), and the number s itself; the receiver reads s q. Rounding is unbiased and off by less than s.
    Symmetric matrices are rounded symmetrically, and what has to be positive semidefinite is made so by its receiver:
    negative eigenvalues become zero. Whoever sends increments adds what was rounded away to the next one, so that
    errors do not add up; totals are sent anew each time and need no such memory.

    Rounded are the fields that an algorithm declares to add up as increments or totals, in either direction. Single
    numbers, and answers to a minimiser, whose certificate rests on exact gradients, stay as they are.

    Guarantee: none is proved; that of the algorithm is for exact sums. With 16 bits an entry is off by at most 3e-5 of
    the largest one.
    """

    bits: Annotated[int, Field(ge=2, le=16)] = 8

    about: ClassVar[AboutStage] = AboutStage(
        name="quantise",
        summary="statistics in a few bits per scalar: stochastic rounding, error feedback",
        source="stochastic quantisation as in Alistarh et al. (NeurIPS 2017), error feedback as in Seide et al. (2014)",
    )

    @property
    def levels(self) -> int:
        """The largest whole number, 2^(bits-1) - 1."""
        return int(2 ** (self.bits - 1) - 1)

    @property
    def whole(self) -> DType:
        """The type that whole numbers have in memory."""
        return "i1" if self.bits <= 8 else "i2"

    def declares(self, about: About) -> About:
        """See `Stage`."""
        check_star("quantise", about, "algorithms that send statistics to a server, such as dislinucb")
        if not any(_rounded(item) for utterance in about.says for item in utterance.fields):
            raise ConfigError(f"quantise: {about.name} sends no statistics that add up: there is nothing to round")
        return replace(
            about,
            name=f"{about.name}|quantise",
            says=tuple(self._declared(utterance) for utterance in about.says),
            guarantee=f"none proved with statistics in {self.bits} bits; for exact ones: {about.guarantee}",
        )

    def poses(self, problem: Problem) -> Problem:
        """See `Stage`: sums may be off by this share of their largest entry."""
        return problem.knowing(Distortion(problem.get(Distortion, Distortion()).relative + 2 / self.levels))

    def ends(
        self,
        says: tuple[Utterance, ...],
        away: Direction,
        n: int,
        sizes: Mapping[str, int],
        rng: Streams,
        problem: Problem,
    ) -> End:
        """See `Stage`."""
        return _Rounding(self, says, away, n, sizes, rng)

    def _declared(self, utterance: Utterance) -> Utterance:
        fields: list[WireField] = []
        for item in utterance.fields:
            if not _rounded(item):
                fields.append(item)
                continue
            bits = None if self.bits in (8, 16) else self.bits
            fields.append(replace(item, dtype=self.whole, bits=bits, semidefinite=False, pooled=False, bound=None))
            fields.append(WireField(item.name + _SCALE, optional=item.optional))
        return replace(utterance, fields=tuple(fields))


def _rounded(item: WireField) -> bool:
    """Whether a field is one of those that are rounded."""
    if item.adds not in ("increment", "total") or item.dtype != "f8" or not item.shape:
        return False
    return not any(isinstance(size, Free | Ragged) for size in item.shape)


class _Rounding(End):
    """One end. `left` holds what was rounded away of the increments that leave here, by agent."""

    keeps: ClassVar[tuple[str, ...]] = ("rng", "left")

    def __init__(
        self,
        stage: Quantise,
        says: tuple[Utterance, ...],
        away: Direction,
        n: int,
        sizes: Mapping[str, int],
        rng: Streams,
    ) -> None:
        self._levels = stage.levels
        self._type = np.dtype(stage.whole)
        self._fields = {
            (utterance.kind, utterance.direction): [item for item in utterance.fields if _rounded(item)]
            for utterance in says
        }
        self._away = away
        self.rng = rng
        self.left = FieldArrays(
            {
                f"{utterance.kind}-{item.name}": (
                    n,
                    *(size if isinstance(size, int) else sizes[str(size)] for size in item.shape),
                )
                for utterance in says
                if utterance.direction == away
                for item in utterance.fields
                if _rounded(item) and item.adds == "increment"
            }
        )
        self._proposed: list[tuple[FloatArray, IntArray, FloatArray]] = []

    def outgoing(self, message: Message) -> Message:
        """Whole numbers and their scale in place of every field that is rounded."""
        arrays: dict[str, Array] = dict(message.arrays)
        self._proposed = []
        for item in self._fields[message.kind, self._away]:
            if item.name not in arrays:
                continue
            value = arrays.pop(item.name)
            left = self.left.of(message.kind, item.name)
            if left is not None:
                value = value + left[message.who]
            one = len(value) > 1 and value.strides[0] == 0  # shown to all: rounded once
            whole, scale = self._rounded(item, value[:1] if one else value, message.who[:1] if one else message.who)
            if left is not None:
                self._proposed.append((left, message.who, value - _read(item, whole, scale)))
            shown = len(value)
            arrays[item.name] = np.broadcast_to(whole, (shown, *whole.shape[1:])) if one else whole
            arrays[item.name + _SCALE] = np.broadcast_to(scale, (shown,)) if one else scale
        return replace(message, arrays=arrays)

    def incoming(self, message: Message) -> Message:
        """The fields as they were, but for what was rounded away."""
        return self._opened(message, "down" if self._away == "up" else "up")

    def returned(self, message: Message) -> Message:
        """As the other side would have heard it; what was rounded away is still kept here."""
        return self._opened(message, self._away)

    def _opened(self, message: Message, direction: Direction) -> Message:
        arrays: dict[str, Array] = dict(message.arrays)
        for item in self._fields[message.kind, direction]:
            if item.name in arrays:
                whole, scale = arrays.pop(item.name), arrays.pop(item.name + _SCALE)
                one = len(whole) > 1 and whole.strides[0] == 0 and scale.strides[0] == 0
                read = _read(item, whole[:1], scale[:1]) if one else _read(item, whole, scale)
                arrays[item.name] = np.broadcast_to(read, whole.shape) if one else read
        return replace(message, arrays=arrays)

    def reached(self, who: IntArray) -> None:
        """What was rounded away is owed to those alone who got the rest."""
        for left, addressed, rest in self._proposed:
            heard = np.isin(addressed, who)
            left[addressed[heard]] = rest[heard]
        self._proposed = []

    def _rounded(self, item: WireField, value: FloatArray, who: IntArray) -> tuple[Array, FloatArray]:
        """Whole numbers (w, ...) and scales (w,)."""
        rows = len(value)
        flat = value.reshape(rows, -1)
        scale = np.abs(flat).max(axis=1, initial=0.0) / self._levels
        inverse = np.divide(1.0, scale, out=np.zeros(rows), where=scale > 0)
        above = self._uniforms(who, flat.shape[1]).reshape(value.shape)
        if item.symmetric:
            above = np.tril(above) + np.swapaxes(np.tril(above, -1), -1, -2)
        steps = value * inverse.reshape(-1, *[1] * (value.ndim - 1))
        # a scale that is rounded down may put the largest entry a little above the last level
        whole = np.clip(np.floor(steps + above), -self._levels, self._levels)
        return whole.astype(self._type), scale

    def _uniforms(self, who: IntArray, size: int) -> FloatArray:
        """(w, size) draws: each agent's own, or all of them the server's."""
        if self._away == "up":
            return self.rng.uniform(who, size)
        return self.rng.uniform(np.zeros(1, dtype=np.int64), len(who) * size).reshape(len(who), size)


def _read(item: WireField, whole: Array, scale: FloatArray) -> FloatArray:
    """(w, ...) what a receiver makes of whole numbers (w, ...) and scales (w,)."""
    value = whole.astype(np.float64) * scale.reshape(-1, *[1] * (whole.ndim - 1))
    return nearest_semidefinite(value) if item.semidefinite else value
