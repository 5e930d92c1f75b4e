"""Trust at the door: what an agent sends is looked at before the server takes it in.

A reply that is not what honest observations can add up to is rejected as a whole. What that is follows from the
declarations of its fields (`contract.wire.WireField`) and from nothing else. With m observations in the message:

    counts          whole numbers, 0 <= m <= horizon; without such a field m is the horizon
    semidefinite    no negative eigenvalue
    bound           ||x|| <= m limit, or x^T (G + e I)^-1 x <= m limit^2 for every e > 0, if it is declared to lie
    within
                    a semidefinite G; and nothing below `low`
    Free, Ragged    as long as the question says, or else no longer than the horizon

All of a reply is of the declared kind, type and shape, finite, and symmetric where it should be. Where stages change
sums on their way, entries may be off by a share r of the largest one that T observations reach (`Distortion`): fields
of p entries may then exceed their bounds by what that makes of T limit, at most, sqrt(p) r T limit in the Euclidean
norm.

What this does not do: it bounds what a liar can claim, it does not find lies that keep within these bounds. Statistics
of private algorithms carry noise, so that for them only kind, type, shape, finiteness and symmetry are checked.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from types import UnionType

import numpy as np

from fedbandits.contract.algorithm import Algorithm
from fedbandits.contract.arrays import Array, FloatArray
from fedbandits.contract.facts import Distortion
from fedbandits.contract.messages import Message
from fedbandits.contract.problem import Problem
from fedbandits.contract.wire import Free, Ragged, Wire, WireError, WireField
from fedbandits.deploy.flower.contributions import Handed
from fedbandits.deploy.flower.expected_answers import Form, Newcomer
from fedbandits.deploy.flower.meaning import Meaning

_ALONE = np.zeros(1, dtype=np.int64)
_SLACK = 1e-6
"""How far, relatively, sums of floating point numbers may be beyond a bound."""

Fields = Mapping[str, WireField]
Lengths = Mapping[str, int]
"""By name, sizes that no problem fixes."""


class RejectedError(ValueError):
    """A reply that is not what honest observations add up to."""


class Inspector:
    """Reads replies to the requests of one algorithm."""

    def __init__(self, algorithm: Algorithm, problem: Problem, wire: Wire) -> None:
        self._private = algorithm.about.private
        self._horizon = problem.horizon
        self._wire = wire
        self._meaning = Meaning(algorithm, problem)
        self._newcomer = Newcomer(algorithm, problem, wire)

    def is_question(self, letter: bytes) -> bool:
        """Whether a server's `letter` is to be answered."""
        return self._newcomer.form(letter) is not None

    def still_answers(self, owed: bytes, asked: bytes) -> bool:
        """Whether the answer to a letter that is `owed` stands as one to what is `asked`; see `expected_answers`."""
        if owed == asked:
            return True
        form = self._newcomer.form(asked)
        if form is None or Wire.decode(owed)[0] != Wire.decode(asked)[0] or form != self._newcomer.form(owed):
            return False
        fields = self._wire.declared(form.kind, "up")
        return all(fields[name].adds == "increment" for name in form.fields)

    def read(self, content: bytes, letter: bytes) -> tuple[str, dict[str, Array]]:
        """The kind and arrays of a reply to a server's `letter`; raises `RejectedError`."""
        kind, arrays, reply = self._decoded(content)
        form = self._newcomer.form(letter)
        if form != Form(kind, frozenset(arrays)):
            raise RejectedError(f"the reply is {kind!r} with {sorted(arrays)}, which is no answer to what was asked")
        asked_kind, asked = Wire.decode(letter)
        _check_lengths(
            open_lengths(self._wire.declared(kind, "up"), arrays),
            open_lengths(self._wire.declared(asked_kind, "down"), asked),
            self._horizon,
        )
        for name, value in arrays.items():
            if not np.isfinite(value).all():
                raise RejectedError(f"{name!r} is not finite")
        try:
            with np.errstate(all="ignore"):  # numbers may be so large that sums of them are not finite
                self._check_meaning(reply, self._wire.gathered(asked_kind, _ALONE, [asked], "down"))
        except np.linalg.LinAlgError as error:
            raise RejectedError(f"its matrices cannot be decomposed: {error}") from None
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
        counted = [float(np.sum(value)) for name, value in increments.items() if fields[name].counts]
        return Handed(kind, increments, totals, counted[0] if counted else 0.0)

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

    def _check_meaning(self, reply: Message, request: Message) -> None:
        """Whether honest observations add up to what the algorithm will make of `reply`."""
        fields = self._meaning.fields(reply.kind, "up")
        arrays = self._meaning.arrays(reply, "up")
        for name, value in arrays.items():
            if fields[name].symmetric:
                _check_symmetric(name, value)
        if self._private:
            return
        for name, value in arrays.items():
            if fields[name].semidefinite:
                _check_semidefinite(name, value)
        honest = _Honesty(self._meaning.problem, fields, arrays, self._meaning.arrays(request, "down"))
        for name in arrays:
            honest.check(name)


class _Honesty:
    """What honest observations reach in a reply: `arrays` with their declared `fields`, to a question that `asked`."""

    def __init__(
        self, problem: Problem, fields: Fields, arrays: Mapping[str, Array], asked: Mapping[str, Array]
    ) -> None:
        self._problem = problem
        self._fields = fields
        self._arrays = arrays
        self._asked = asked
        self._off = problem.get(Distortion, Distortion()).relative
        """By what share of the largest one entries may be off."""
        self._observations = self._counted()

    def check(self, name: str) -> None:
        """Raise `RejectedError` if a field is beyond what is declared of it."""
        field, value = self._fields[name], self._arrays[name]
        bound = field.bound
        if bound is None:
            return
        if value.size and value.min() < bound.low:
            raise RejectedError(f"{name!r} is {value.min():g}, and never below {bound.low:g}")
        limit = bound.limit(self._problem, self._asked)
        if math.isinf(limit):
            return
        times = self._observations if bound.per_observation else 1.0
        most = self._problem.horizon if bound.per_observation else 1.0
        if bound.within is not None and bound.within in self._arrays:
            self._check_within(name, bound.within, times, most, limit)
        elif field.semidefinite:
            # the trace of a matrix that is off by D in the Frobenius norm is off by sqrt(d) D
            beyond = len(value) ** 1.5 * self._off * most * limit
            _check_at_most(f"the trace of {name!r}", float(np.trace(value)), times * limit + beyond)
        else:
            beyond = math.sqrt(value.size) * self._off * most * limit
            _check_at_most(f"the norm of {name!r}", float(np.linalg.norm(value)), times * limit + beyond)

    def _check_within(self, name: str, matrix: str, times: float, most: float, limit: float) -> None:
        """x^T (G + e I)^-1 x <= m limit^2, with e at least what G may be off by, if it is.

        x is then off by at most sqrt(e) limit sqrt(r T), e being d r T L^2, which adds limit sqrt(r T) to the norm.
        """
        square = self._arrays[matrix]
        bound = self._fields[matrix].bound
        largest = math.inf if bound is None else bound.limit(self._problem, self._asked)
        off = 0.0 if self._off == 0 else len(square) * self._off * most * largest
        if math.isinf(off):
            return
        explained = _explained(square, self._arrays[name], off)
        reached = (math.sqrt(times) + math.sqrt(self._off * most)) * limit
        _check_at_most(f"{name!r} in the norm of {matrix!r}", explained, reached)

    def _counted(self) -> float:
        """m, as the reply counts itself; the horizon if it does not, or if its counts may be off."""
        horizon = self._problem.horizon
        counted = [name for name in self._arrays if self._fields[name].counts]
        for name in counted:
            value = np.asarray(self._arrays[name], dtype=np.float64)
            if self._off > 0 and value.ndim:
                return float(horizon)
            whole = bool((value >= 0).all() and (value == np.round(value)).all())
            if not whole or value.sum() > horizon:
                raise RejectedError(f"{name!r} is {_shown(value)}; an agent has 0..{horizon} observations")
        return float(np.sum(self._arrays[counted[0]])) if counted else float(horizon)


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


def _check_lengths(held: Lengths, asked: Lengths, horizon: int) -> None:
    for name, length in held.items():
        if name in asked and length != asked[name]:
            raise RejectedError(f"{name} is {length}, and {asked[name]} in the question")
        if name not in asked and length > horizon:
            raise RejectedError(f"{name} is {length}; an agent has 0..{horizon} observations")


def _shown(value: FloatArray) -> str:
    return f"{value:g}" if value.ndim == 0 else f"{value.min():g}..{value.max():g}, {value.sum():g} in all"


def _check_symmetric(name: str, square: FloatArray) -> None:
    gap = np.abs(square - square.T).max(initial=0.0)
    if not gap <= _SLACK * np.abs(square).max(initial=0.0):
        raise RejectedError(f"{name!r} is not symmetric: entries differ by {gap:g}")


def _check_semidefinite(name: str, square: FloatArray) -> None:
    values = np.linalg.eigvalsh(square)
    if len(values) and not values[0] >= -_SLACK * max(values[-1], 0.0):
        raise RejectedError(f"{name!r} is not positive semidefinite: its smallest eigenvalue is {values[0]:g}")


def _check_at_most(what: str, value: float, bound: float) -> None:
    if not value <= bound * (1 + _SLACK) + _SLACK:  # also where it is not a number
        raise RejectedError(f"{what} is {value:g}, honest observations reach {bound:g}")


def _explained(gram: FloatArray, moment: FloatArray, off: float) -> float:
    """sqrt(x^T (G + e I)^-1 x), with e as small as rounding errors, and what G is `off` by, allow."""
    ridge = _SLACK * max(float(np.trace(gram)), _SLACK) + off
    return math.sqrt(max(float(np.sum(moment * np.linalg.solve(gram + ridge * np.eye(len(gram)), moment))), 0.0))
