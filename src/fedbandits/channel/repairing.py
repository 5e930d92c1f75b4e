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
from fedbandits.models.noisy_sums import RISK, reach


class Passing(End):
    """For servers that use nothing but sums over everybody: they add up as they come."""

    def outgoing(self, message: Message) -> Message:
        """The same."""
        return message

    def incoming(self, message: Message) -> Message:
        """The same."""
        return message


class Repairing(Passing):
    """For servers that look at single agents, whose statistics have to be semidefinite.

    `sums` (n, ...) are what each agent has sent so far, `told` (n, ...) what the server was made to add up: the same
    with a shift that noise hardly reaches beyond, c I, and without what is negative nevertheless. It costs no privacy.
    """

    keeps: ClassVar[tuple[str, ...]] = ("sums", "told")

    def __init__(self, kind: str, fields: tuple[NoisyField, ...], n: int, deviation: float) -> None:
        """`deviation` is that of the noise in an agent's sum, in units of one observation's bound."""
        self._kind = kind
        self._matrices = tuple(field for field in fields if field.symmetric)
        self._deviation = deviation
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
            sums[message.who] += arrays[field.name]
            silent = ~sums[message.who].any(axis=(1, 2))
            shift = reach(field.bound * self._deviation, field.shape[0], RISK)
            mended = nearest_semidefinite(sums[message.who] + shift * np.eye(field.shape[0]))
            mended[silent] = 0.0
            arrays[field.name] = mended - told[message.who]
            told[message.who] = mended
        return replace(message, arrays=arrays)
