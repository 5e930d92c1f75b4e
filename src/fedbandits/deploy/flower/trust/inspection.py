"""Trust at the door: what an agent sends is looked at before the server takes it in.

A reply that is not what honest observations can add up to is rejected as a whole. What that is follows from the
declarations of its fields (`contract.wire.WireField`), from what the agent has contributed before, and from how long it
has been seen (`past`), and from nothing else:

    counts          whole numbers, together no more than the agent can have observed
    semidefinite    no negative eigenvalue
    bound           a norm, of the reply and of everything so far, that so many observations reach; see `honesty`
    totals          no less than the last ones
    Free, Ragged    as long as the question says, or else no longer than what the agent can have observed

All of a reply is of the declared kind, type and shape, finite, and symmetric where it should be.

What this does not do: it bounds what a liar can claim, it does not find lies that keep within these bounds. Sums that
went through a noise stage are held against what that declares of them, which leaves room for twelve standard deviations
of noise. Of algorithms that add noise themselves only kind, type, shape, finiteness and symmetry are checked.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import UnionType

import numpy as np

from fedbandits.contract.algorithm import Algorithm
from fedbandits.contract.arrays import Array
from fedbandits.contract.messages import Message
from fedbandits.contract.problem import Problem
from fedbandits.contract.wire import Free, Ragged, Wire, WireError
from fedbandits.deploy.flower.book.contributions import Handed
from fedbandits.deploy.flower.trust.expected_answers import Form, Newcomer
from fedbandits.deploy.flower.trust.honesty import (
    DeclinedError,
    Fields,
    Honesty,
    RejectedError,
    check_semidefinite,
    check_symmetric,
)
from fedbandits.deploy.flower.trust.meaning import Meaning
from fedbandits.deploy.flower.trust.past import Past

__all__ = ["DeclinedError", "Inspector", "RejectedError", "open_lengths"]

_ALONE = np.zeros(1, dtype=np.int64)
Lengths = Mapping[str, int]
"""By name, sizes that no problem fixes."""


class Inspector:
    """Reads replies to the requests of one algorithm."""

    def __init__(self, algorithm: Algorithm, problem: Problem, wire: Wire) -> None:
        self._horizon = problem.horizon
        self._wire = wire
        self._meaning = Meaning(algorithm, problem)
        self.checks_bounds = self._meaning.noisy or not algorithm.about.private
        """Whether replies are held against the bounds of their fields."""
        self._newcomer = Newcomer(algorithm, problem, wire)

    def is_question(self, letter: bytes) -> bool:
        """Whether a server's `letter` is to be answered."""
        return self._newcomer.form(letter) is not None

    def may_decline(self, letter: bytes) -> bool:
        """Whether an honest agent may leave a question open: one about all its data, if its answers are noisy and
        their number is limited (`channel.answering`).
        """
        form = self._newcomer.form(letter)
        if form is None or not self._meaning.noisy:
            return False
        fields = self._wire.declared(form.kind, "up")
        return any(fields[name].adds == "query" for name in form.fields)

    def still_answers(self, owed: bytes, asked: bytes) -> bool:
        """Whether the answer to a letter that is `owed` stands as one to what is `asked`; see `expected_answers`."""
        if owed == asked:
            return True
        form = self._newcomer.form(asked)
        if form is None or Wire.decode(owed)[0] != Wire.decode(asked)[0] or form != self._newcomer.form(owed):
            return False
        fields = self._wire.declared(form.kind, "up")
        return all(fields[name].adds == "increment" for name in form.fields)

    def read(self, content: bytes, letter: bytes, past: Past | None = None) -> tuple[str, dict[str, Array]]:
        """The kind and arrays of a reply to a server's `letter`, by an agent with this `past`, or by one that was just
        seen for the first time; raises `RejectedError`.
        """
        past = past or Past(self._horizon)
        kind, arrays, reply = self._decoded(content)
        form = self._newcomer.form(letter)
        if form != Form(kind, frozenset(arrays)):
            raise RejectedError(f"the reply is {kind!r} with {sorted(arrays)}, which is no answer to what was asked")
        asked_kind, asked = Wire.decode(letter)
        _check_lengths(
            open_lengths(self._wire.declared(kind, "up"), arrays),
            open_lengths(self._wire.declared(asked_kind, "down"), asked),
            past.allowed,
        )
        for name, value in arrays.items():
            if not np.isfinite(value).all():
                raise RejectedError(f"{name!r} is not finite")
        try:
            with np.errstate(all="ignore"):  # numbers may be so large that sums of them are not finite
                self._check_meaning(reply, self._wire.gathered(asked_kind, _ALONE, [asked], "down"), past)
        except RejectedError:
            raise
        except np.linalg.LinAlgError as error:
            raise RejectedError(f"its matrices cannot be decomposed: {error}") from None
        except Exception as error:  # whatever stages and bounds make of numbers that nobody has thought of
            raise RejectedError(f"it cannot be made sense of: {type(error).__name__}: {error}") from None
        return kind, arrays

    def free_lengths(self, content: bytes) -> dict[str, int]:
        """The lengths that all replies of a turn have to agree on."""
        kind, arrays = Wire.decode(content)
        return open_lengths(self._wire.declared(kind, "up"), arrays, Free)

    def handed(self, content: bytes) -> Handed:
        """What a reply that was read hands over, as the algorithm reads it; what differs in length does not add up."""
        kind, arrays = Wire.decode(content)
        reply = self._wire.gathered(kind, _ALONE, [arrays], "up")
        fields, arrays = self._meaning.fields(kind, "up"), self._meaning.arrays(reply, "up")
        added = {
            name: value
            for name, value in arrays.items()
            if not any(isinstance(size, Free | Ragged) for size in fields[name].shape)
        }
        increments = {name: value for name, value in added.items() if fields[name].adds == "increment"}
        totals = {name: value for name, value in added.items() if fields[name].adds == "total"}
        counts = [name for name in arrays if fields[name].counts and fields[name].adds == "increment"]
        counted = [float(np.sum(arrays[name])) for name in counts]
        return Handed(kind, increments, totals, counted[0] if counted else None)

    def _decoded(self, content: bytes) -> tuple[str, dict[str, Array], Message]:
        """What the bytes say, if they are what the wire makes of a declared message."""
        try:
            kind, arrays = Wire.decode(content)
            reply = self._wire.gathered(kind, _ALONE, [arrays], "up")
            self._wire.check(reply, "up")
        except WireError as error:
            raise RejectedError(str(error)) from None
        metered = self._wire.size(reply, "up").bytes
        if len(content) != metered:
            raise RejectedError(f"the reply has {len(content)} bytes, the meter counts {metered} for what it holds")
        return kind, arrays, reply

    def _check_meaning(self, reply: Message, request: Message, past: Past) -> None:
        """Whether honest observations add up to what the algorithm will make of `reply`."""
        fields = self._meaning.fields(reply.kind, "up")
        arrays = self._meaning.arrays(reply, "up")
        for name, value in arrays.items():
            if fields[name].symmetric:
                check_symmetric(name, value)
        if not self.checks_bounds:
            return
        for name, value in arrays.items():
            if fields[name].semidefinite:
                check_semidefinite(name, value)
        asked = self._meaning.arrays(request, "down")
        Honesty(self._meaning.problem, reply.kind, fields, arrays, asked, past).check()


def open_lengths(
    fields: Fields, arrays: Mapping[str, Array], kinds: type | UnionType = Free | Ragged
) -> dict[str, int]:
    """How long one agent's share of a message is where neither problem nor algorithm fixes that."""
    return {
        size.name: length
        for name, value in arrays.items()
        for size, length in zip(fields[name].shape, value.shape, strict=True)
        if isinstance(size, kinds) and not isinstance(size, str | int)
    }


def _check_lengths(held: Lengths, asked: Lengths, most: float) -> None:
    for name, length in held.items():
        if name in asked and length != asked[name]:
            raise RejectedError(f"{name} is {length}, and {asked[name]} in the question")
        if name not in asked and length > most:
            raise RejectedError(f"{name} is {length}; an agent has 0..{most:.0f} observations")
