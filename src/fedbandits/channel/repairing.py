"""The server's end of a noise stage."""

from __future__ import annotations

from dataclasses import replace
from typing import ClassVar

import numpy as np

from fedbandits.channel.field_arrays import FieldArrays
from fedbandits.channel.sensitivity import NoisyField
from fedbandits.channel.stage import End
from fedbandits.contract.messages import Message
from fedbandits.linalg.semidefinite import nearest_semidefinite

_ROUNDING = 1e-12
"""Of the largest entry: what is less negative than that is left."""


class Passing(End):
    """For servers that use nothing but sums over everybody: they add up as they come."""

    passes = True

    def outgoing(self, message: Message) -> Message:
        """The same."""
        return message

    def incoming(self, message: Message) -> Message:
        """The same."""
        return message


class Repairing(Passing):
    """For servers that look at single agents, whose statistics have to be semidefinite.

    `sums` (n, ...) are what each agent has sent so far, `told` (n, ...) what the server was made to add up: the same
    without what is negative. It costs no privacy, and makes sums too large by what was cut (`models.noisy_sums`).
    Increments of an agent of whom nothing is cut stay as they are, to the last bit.
    """

    keeps: ClassVar[tuple[str, ...]] = ("sums", "told")
    passes = False

    def __init__(self, kind: str, fields: tuple[NoisyField, ...], n: int) -> None:
        self._kind = kind
        self._matrices = tuple(field for field in fields if field.symmetric)
        shapes = {f"{kind}-{field.name}": (n, *field.shape) for field in self._matrices}
        self.sums, self.told = FieldArrays(shapes), FieldArrays(shapes)

    def incoming(self, message: Message) -> Message:
        """Increments that lead from one repaired sum to the next."""
        if message.kind != self._kind:
            return message
        arrays = dict(message.arrays)
        for field in self._matrices:
            sums, told = self.sums.of(self._kind, field.name), self.told.of(self._kind, field.name)
            assert sums is not None
            assert told is not None
            fresh, before = arrays[field.name], told[message.who]
            whole = (before == sums[message.who]).all(axis=(1, 2))
            sums[message.who] += fresh
            after = sums[message.who]
            mended = nearest_semidefinite(after, _ROUNDING * np.abs(after).max(axis=(1, 2), initial=0.0))
            whole &= (mended == after).all(axis=(1, 2))
            arrays[field.name] = np.where(whole[:, None, None], fresh, mended - before)
            told[message.who] = mended
        return replace(message, arrays=arrays)
