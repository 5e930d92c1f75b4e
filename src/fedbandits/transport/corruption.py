"""Corruption: how a network changes the raw observations in messages, at their source and in transit.

Only float fields that an algorithm declares `raw` are touched. Two models, which may be combined:

- *contamination* (Huber; Dubey 2022, thesis, section 5.1): a message of a byzantine agent carries, with a
  given chance, outliers instead of the rewards. It happens once, at the source: all receivers get the same.
- *tampering* (Dubey 2022, thesis, section 5.2): every transmission adds to the reward, at most
  `tampering` in absolute value, so that a reward that came over h links is off by at most h times that. Agents that
  receive the same message by different paths may hold different values.

An agent's own reward, as it has seen it itself, is never changed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import ClassVar

import numpy as np
from scipy.special import ndtri

from fedbandits.contract.arrays import Array, BoolArray, FloatArray, IntArray
from fedbandits.contract.errors import ConfigError
from fedbandits.contract.messages import Message
from fedbandits.contract.state import Stateful
from fedbandits.contract.wire import Utterance
from fedbandits.graphs.network import Faults
from fedbandits.transport.mishaps import OUTLIER, SOURCE, TRANSIT, Mishaps, byzantine, uniforms

ARM = "arm"
"""The field that says which arm the rewards of a message belong to."""
_NOBODY = -1


def check_corruptible(faults: Faults, spoken: Sequence[Utterance]) -> None:
    """Raise `ConfigError` where `faults` corrupt what agents send each other and nothing of that can be corrupted."""
    if not faults.corrupting:
        return
    remedy = "set contamination=0 and tampering=0"
    raw = [item for utterance in spoken for item in utterance.fields if item.raw]
    if not raw:
        kinds = ", ".join(repr(utterance.kind) for utterance in spoken) or "nothing that is declared"
        raise ConfigError(
            f"network: corruption changes the rewards in messages, and these agents send none (they say {kinds}); "
            f"{remedy}"
        )
    for item in raw:
        if item.ragged:
            raise ConfigError(
                f"network: corruption cannot change {item.name!r}, of which agents send more or less; {remedy}"
            )


class Corruption(Stateful):
    """Changes the raw numbers of messages of one kind, as `faults` say; its state is what the adaptive tamperer knows.

    The adaptive tamperer knows what was said, clean, in all earlier rounds in messages of this kind. In each round it
    adds -tampering to the numbers of the arm whose mean is the highest so far (ties: lowest index; before anybody has
    spoken: no arm) and +tampering to those of every other arm; to messages that name no arm, -tampering.
    """

    keeps: ClassVar[tuple[str, ...]] = ("totals", "counts")

    def __init__(self, faults: Faults, mishaps: Mishaps, agents: int, arms: int, said: Utterance) -> None:
        self._faults = faults
        self._mishaps = mishaps
        self._byzantine = byzantine(mishaps, faults.byzantine, agents)
        self._raw = tuple(item.name for item in said.fields if item.raw)
        self.totals = np.zeros(arms)
        """(K,) sums of the numbers said of each arm."""
        self.counts = np.zeros(arms, dtype=np.int64)
        """(K,) how many they were."""
        self._best = _NOBODY

    @property
    def in_transit(self) -> bool:
        """Whether transmissions change messages, so that receivers may hold different values."""
        return self._faults.tampering > 0 and bool(self._raw)

    def numbers(self, said: Message) -> FloatArray:
        """(w, R) the raw numbers of each message, field by field."""
        columns = [said.arrays[name].reshape(len(said.who), -1) for name in self._touched(said.arrays)]
        return np.hstack([np.zeros((len(said.who), 0)), *columns])

    def rewritten(self, arrays: Mapping[str, Array], numbers: FloatArray) -> dict[str, Array]:
        """`arrays` with `numbers` (w, R) in place of the raw ones."""
        changed = dict(arrays)
        first = 0
        for name in self._touched(arrays):
            width = int(np.prod(arrays[name].shape[1:]))
            changed[name] = numbers[:, first : first + width].reshape(arrays[name].shape).astype(arrays[name].dtype)
            first += width
        return changed

    def look(self) -> None:
        """At the start of a round: find the arm that looks best, from what was said in earlier ones."""
        if self.counts.any():
            self._best = int(np.where(self.counts > 0, self.totals / np.maximum(self.counts, 1), -np.inf).argmax())

    def watch(self, said: Message) -> None:
        """Remember what is said in this round; messages are in the order of their origins."""
        if self._faults.tamperer != "adaptive" or not self.in_transit or ARM not in said.arrays:
            return
        arm = said.arrays[ARM]
        if arm.ndim != 1 or arm.dtype.kind not in "iu" or arm.min() < 0 or arm.max() >= len(self.totals):
            raise ValueError(f"field {ARM!r} of message {said.kind!r} must be an index in 0..{len(self.totals) - 1}")
        numbers = self.numbers(said)
        each = np.repeat(arm, numbers.shape[1])
        np.add.at(self.totals, each, numbers.ravel())
        np.add.at(self.counts, each, 1)

    def at_source(self, said: Message, step: int) -> Message:
        """What leaves the agents instead of what they said in round `step`."""
        struck = self._struck(said.who, step)
        if not struck.any():
            return said
        numbers = self.numbers(said)
        numbers[struck] = self._outliers(said.who[struck], step, numbers.shape[1])
        return replace(said, arrays=self.rewritten(said.arrays, numbers))

    def on_the_way(
        self,
        numbers: FloatArray,
        arm: IntArray | None,
        origin: IntArray,
        born: IntArray,
        sender: IntArray,
        to: IntArray,
    ) -> FloatArray:
        """(c, R) numbers as they leave `sender` -> as they come to `to`; every number has an addition of its own."""
        if self._faults.tamperer == "adaptive":
            up = np.zeros(len(to), dtype=np.bool_) if arm is None else arm != self._best
            return np.asarray(numbers + np.where(up, self._faults.tampering, -self._faults.tampering)[:, None])
        added = np.empty_like(numbers)
        for place in range(numbers.shape[1]):
            occasions = np.column_stack([origin, born, sender, to, np.full(len(to), place)])
            added[:, place] = self._faults.tampering * uniforms(self._mishaps.keys[TRANSIT], occasions)
        return numbers + added

    def _touched(self, arrays: Mapping[str, Array]) -> list[str]:
        return [name for name in self._raw if name in arrays and arrays[name].dtype.kind == "f"]

    def _struck(self, who: IntArray, step: int) -> BoolArray:
        if self._faults.contamination == 0:
            return np.zeros(len(who), dtype=np.bool_)
        drawn = uniforms(self._mishaps.keys[SOURCE], np.column_stack([who, np.full(len(who), step)]))
        return np.asarray(self._byzantine[who] & (drawn < self._faults.contamination))

    def _outliers(self, who: IntArray, step: int, width: int) -> FloatArray:
        """(w, width) draws of the outliers' law, by inversion."""
        size = self._faults.outlier
        if self._faults.outliers == "constant":
            return np.full((len(who), width), size)
        drawn = np.empty((len(who), width))
        for place in range(width):
            occasions = np.column_stack([who, np.full(len(who), step), np.full(len(who), place)])
            drawn[:, place] = uniforms(self._mishaps.keys[OUTLIER], occasions)
        standard = ndtri(drawn) if self._faults.outliers == "gaussian" else np.tan(np.pi * (drawn - 0.5))
        return np.asarray(size * standard, dtype=np.float64)
