"""What a node may make of an honest reply: bytes that are none, numbers that are no statistics, and likely lies."""

from __future__ import annotations

from typing import Any

import numpy as np

from fedbandits.contract.arrays import Array
from fedbandits.contract.messages import Message
from fedbandits.contract.wire import Wire, WireError
from fedbandits.deploy.flower.post import Answer

_EXTREMES = (np.nan, np.inf, -np.inf, 1e308, -1e308, 1e150, 1e8, -1e8, 1e-300, 5e-324, 0.0, -0.0, 1.0, 2.0**53)


class Mutator:
    """Changes answers at random; `changed` counts them."""

    def __init__(self, seed: int) -> None:
        self._rng = np.random.default_rng(seed)
        self._seen: list[bytes] = [b""]
        self.changed = 0

    def __call__(self, who: int, letter: Any, answer: Answer) -> Answer:
        """As `DeskPost.forged`."""
        rng = self._rng
        self.changed += 1
        way = rng.integers(10)
        if answer.content is None:
            return [answer, Answer(b"what?"), Answer(refused="\x1b[2J no\n"), Answer(letters=2**62)][rng.integers(4)]
        self._seen = [*self._seen[-20:], answer.content]
        if way == 0:
            return answer
        if way == 1:
            return Answer(self._seen[rng.integers(len(self._seen))], letters=answer.letters)
        if way == 2:
            return Answer(self._flipped(answer.content), letters=int(rng.integers(0, 100)))
        if way == 3:
            return [Answer(None), Answer(refused="no"), Answer(b""), Answer(answer.content[:-1])][rng.integers(4)]
        return Answer(self._lied(answer.content), letters=answer.letters)

    def _flipped(self, content: bytes) -> bytes:
        held = np.frombuffer(content, np.uint8).copy()
        for place in self._rng.integers(len(held), size=self._rng.integers(1, 4)):
            held[place] ^= 1 << self._rng.integers(8)
        return held.tobytes()

    def _lied(self, content: bytes) -> bytes:
        kind, arrays = Wire.decode(content)
        for name in list(arrays):
            if self._rng.random() < 0.7:
                arrays[name] = self._other(arrays[name])
        if self._rng.random() < 0.05:
            arrays.pop(next(iter(arrays), ""), None)
        named = {name: value[None] for name, value in arrays.items()}
        try:
            return Wire().encode(Message(kind, np.zeros(1, dtype=np.int64), named), 0, "up")
        except WireError:
            return content

    def _other(self, array: Array) -> Array:
        rng, way = self._rng, self._rng.integers(8)
        value = np.array(array)
        if value.size == 0 or value.dtype.kind not in "fiu":
            return value
        with np.errstate(all="ignore"):
            if way == 0:
                value.flat[rng.integers(value.size)] = np.nan_to_num(rng.choice(_EXTREMES)).astype(value.dtype)
            elif way == 1 and value.dtype.kind == "f":
                value.flat[rng.integers(value.size)] = rng.choice(_EXTREMES)
            elif way == 2:
                value = (value * rng.choice([-1.0, 0.0, 0.5, 2.0, 10.0])).astype(value.dtype)
            elif way == 3:
                value = (value * 10.0 ** rng.integers(-300, 300)).astype(value.dtype)
            elif way == 4:
                value = rng.permutation(value.ravel()).reshape(value.shape)
            elif way == 5 and value.ndim == 2 and value.shape[0] == value.shape[1]:
                half = rng.normal(size=value.shape) * 10.0 ** rng.integers(-8, 3)
                value = half @ half.T
            elif way == 6:
                value = (value + rng.normal(size=value.shape) * 10.0 ** rng.integers(-8, 8)).astype(value.dtype)
            else:
                value = np.concatenate([value.ravel(), value.ravel()])
        return value
