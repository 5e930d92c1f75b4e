"""Liars who know everything: they hand over what a robust rule just about takes for honest."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import ClassVar

import numpy as np

from fedbandits.channel import Robust
from fedbandits.channel.field_arrays import FieldArrays
from fedbandits.channel.robust import pair_of
from fedbandits.channel.robust_rules import Filter, Pair
from fedbandits.contract.arrays import Array, BoolArray, FloatArray, IntArray
from fedbandits.contract.messages import Message
from fedbandits.contract.population import Population
from fedbandits.contract.wire import Utterance
from fedbandits.contract.wrapping import Wrapping
from fedbandits.transport.attack import Attack

_HALVINGS = 20
_FARTHEST = 4.0
"""How far, at most, the parameter of liars is from the honest one."""
_JUST_BELOW = 0.99
"""The share of the largest plausible amount of data that liars claim."""
_FEW = 3
"""Fewer honest agents than this cannot be imitated: until then liars tell the truth."""


class Imitation(Wrapping):
    """`inner` agents of whom the `liars` (n,) hand over, all of them, sums in the middle of the honest ones, turned.

    With H the honest agents heard of, theta_H the ridge estimate from all they handed over and u a direction orthogonal
    to it: A is the mean of A_h, times what makes its trace just plausible, and b = A (theta_H + s t u), t being the
    largest number, found by bisection, at which the filter suspects no liar. `sums` (n, ...) are what each has sent.
    """

    keeps: ClassVar[tuple[str, ...]] = ("inner", "told", "sums")

    def __init__(
        self,
        inner: Population,
        attack: Attack,
        liars: BoolArray,
        sent: Sequence[Utterance],
        robust: Robust,
        sizes: Mapping[str, int],
        draws: np.random.Generator,
    ) -> None:
        super().__init__(inner)
        n = len(inner)
        self._attack = attack
        self._liars = liars
        self._rule = Filter(robust.beyond, robust.much, robust.ridge)
        self._pairs = {said.kind: pair for said in sent if (pair := pair_of(said)) is not None}
        shapes = {
            f"{said.kind}-{item.name}": tuple(
                size if isinstance(size, int) else sizes[str(size)] for size in item.shape
            )
            for said in sent
            for item in said.fields
        }
        self._towards = {
            said.kind: draws.standard_normal(shapes[f"{said.kind}-{self._pairs[said.kind].vector}"]) for said in sent
        }
        self.told = np.zeros(n, dtype=np.int64)
        self.sums = FieldArrays({name: (n, *shape) for name, shape in shapes.items()})

    def answer(self, request: Message) -> Message | None:
        """What the inner agents answer, but for liars."""
        reply = self.inner.answer(request)
        if reply is None or not reply.arrays:
            return reply
        sums = {name: self._sums(reply.kind, name) for name in reply.arrays}
        honest = ~self._liars
        mine = honest[reply.who]
        for name, fresh in reply.arrays.items():
            sums[name][reply.who[mine]] += fresh[mine]
        lying = self._lying(reply.who)
        pair = self._pairs[reply.kind]
        known = np.flatnonzero(honest & sums[pair.matrix].any(axis=(1, 2)))
        arrays: dict[str, Array] = dict(reply.arrays)
        if lying.any() and len(known) >= _FEW:
            wanted = self._wanted({name: rows[known] for name, rows in sums.items()}, pair, reply.kind)
            for name in arrays:
                arrays[name] = np.array(arrays[name])
                arrays[name][lying] = wanted[name] - sums[name][reply.who[lying]]
            self.told[reply.who[lying]] += 1
        for name, fresh in arrays.items():
            sums[name][reply.who[~mine]] += fresh[~mine]
        return replace(reply, arrays=arrays)

    def _lying(self, who: IntArray) -> BoolArray:
        most = np.inf if self._attack.lies is None else self._attack.lies
        return np.asarray(self._liars[who] & (self.told[who] < most))

    def _wanted(self, honest: dict[str, FloatArray], pair: Pair, kind: str) -> dict[str, FloatArray]:
        """What all that a liar has handed over should add up to, given the sums (h, ...) of honest agents."""
        gram, moment = honest[pair.matrix], honest[pair.vector]
        amount = np.trace(gram, axis1=1, axis2=2)
        limit = self._rule.most(amount)
        times = _JUST_BELOW * limit / amount.mean() if np.isfinite(limit) else 1.0
        found = {name: times * rows.mean(axis=0) for name, rows in honest.items()}
        ridged = gram.sum(axis=0) + self._rule.ridge * np.eye(gram.shape[1])
        truth = np.linalg.solve(ridged, moment.sum(axis=0))
        turned = self._towards[kind] - truth * (self._towards[kind] @ truth) / max(float(truth @ truth), 1e-300)
        turned /= max(float(np.linalg.norm(turned)), 1e-300)
        liars = int(self._liars.sum())

        def is_suspected(distance: float) -> bool:
            told = found[pair.matrix] @ (truth + distance * turned)
            grams = np.concatenate([gram, np.repeat(found[pair.matrix][None], liars, axis=0)])
            moments = np.concatenate([moment, np.repeat(told[None], liars, axis=0)])
            return bool(self._rule.suspects(grams, moments)[len(gram) :].any())

        low, high = 0.0, _FARTHEST
        if is_suspected(high):
            for _ in range(_HALVINGS):
                middle = (low + high) / 2
                low, high = (low, middle) if is_suspected(middle) else (middle, high)
        else:
            low = high
        found[pair.vector] = found[pair.matrix] @ (truth + self._attack.size * low * turned)
        return found

    def _sums(self, kind: str, name: str) -> Array:
        held = self.sums.of(kind, name)
        assert held is not None
        return held
