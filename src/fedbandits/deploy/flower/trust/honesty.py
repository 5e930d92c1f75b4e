"""What honest observations add up to, in one reply and in all of an agent's replies together."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from fedbandits.contract.arrays import Array, FloatArray
from fedbandits.contract.facts import Distortion
from fedbandits.contract.problem import Problem
from fedbandits.contract.wire import Bound, WireField
from fedbandits.deploy.flower.trust.past import Past

SLACK = 1e-6
"""How far, relatively, sums of floating point numbers may be beyond a bound."""

Fields = Mapping[str, WireField]
Arrays = Mapping[str, Array]


class RejectedError(ValueError):
    """A reply that is not what honest observations add up to."""


class DeclinedError(RejectedError):
    """No reply, of an agent that may decline: that is nobody's fault."""


class Honesty:
    """What an agent with a `past` can honestly reply to a question that `asked`: `arrays` with their `fields`.

    Let M be the observations that it can have made in all (`Past.allowed`), and m those that a field is over:

        increments   m as the message counts them, at most M together with all before; M where it does not count.
                     The sum of all increments so far is over M at most. A limit that is not one for each observation
                     holds for one increment as for all of them together.
        totals       m as the message counts them, M where it does not; none is less than the last one
        queries      m as all increments so far have counted them, M where they have not

    Where stages change sums on their way, entries may be off by a share r of the largest one that M observations reach
    (`Distortion`): fields of p entries may then exceed their bounds by what that makes of M limit.
    """

    def __init__(self, problem: Problem, kind: str, fields: Fields, arrays: Arrays, asked: Arrays, past: Past) -> None:
        self._problem = replace(problem, horizon=math.ceil(past.allowed))
        self._kind = kind
        self._fields = fields
        self._arrays = arrays
        self._asked = asked
        self._past = past
        self._off = problem.get(Distortion, Distortion()).relative
        """By what share of the largest one entries may be off."""

    def check(self) -> None:
        """Raise `RejectedError` if a field is beyond what is declared of it."""
        observations = self._counted()
        for name in self._arrays:
            bound = self._fields[name].bound
            if bound is not None:
                self._check_bound(name, bound, self._over(name, observations))
            if self._fields[name].adds == "total":
                self._check_growth(name)

    def _over(self, name: str, counted: float | None) -> float:
        """How many observations a field is over, at most."""
        if counted is not None:
            return counted
        past = self._past
        asked_anew = self._fields[name].adds == "query" and past.complete and past.contribution.replies > 0
        if asked_anew and past.contribution.uncounted == 0:
            return past.contribution.observations
        return past.allowed

    def _counted(self) -> float | None:
        """m, as the reply counts itself; None if it does not, or if its counts may be off."""
        found: float | None = None
        most = self._past.allowed
        for name in [name for name in self._arrays if self._fields[name].counts]:
            value = np.asarray(self._arrays[name], dtype=np.float64)
            if self._off > 0 and value.ndim:
                return None
            whole = bool((value >= 0).all() and (value == np.round(value)).all())
            before = self._past.contribution.observations if self._fields[name].adds == "increment" else 0.0
            if not whole or value.sum() + before > most:
                told = f", {before:g} before" if before else ""
                raise RejectedError(f"{name!r} is {_shown(value)}{told}; an agent has 0..{most:.0f} observations")
            found = float(value.sum()) if found is None else found
        return found

    def _check_bound(self, name: str, bound: Bound, over: float) -> None:
        value = self._arrays[name]
        if value.size and value.min() < bound.low:
            raise RejectedError(f"{name!r} is {value.min():g}, and never below {bound.low:g}")
        limit = bound.limit(self._problem, self._asked)
        if math.isinf(limit):
            return
        self._check_size(name, self._arrays, limit, over if bound.per_observation else 1.0, "")
        if self._fields[name].adds == "increment":
            so_far = self._so_far()
            if name in so_far:
                self._check_size(name, so_far, limit, self._past.allowed if bound.per_observation else 1.0, " so far")

    def _so_far(self) -> Arrays:
        """The sums of all increments, this reply's included, where there were any before."""
        sums, found = self._past.contribution.sums, {}
        for name, value in self._arrays.items():
            before = sums.get(f"{self._kind}.{name}")
            if before is not None and before.shape == value.shape and self._fields[name].adds == "increment":
                found[name] = before + value
        return found

    def _check_size(self, name: str, arrays: Arrays, limit: float, times: float, when: str) -> None:
        field, value = self._fields[name], arrays[name]
        bound = field.bound
        assert bound is not None
        most = self._past.allowed if bound.per_observation else 1.0
        if bound.within is not None and bound.within in arrays:
            self._check_within(name, bound.within, arrays, limit, times, most, when)
        elif field.semidefinite:
            # the trace of a matrix that is off by D in the Frobenius norm is off by sqrt(d) D
            beyond = len(value) ** 1.5 * self._off * most * limit
            _check_at_most(f"the trace of {name!r}{when}", float(np.trace(value)), times * limit + beyond)
        else:
            beyond = math.sqrt(value.size) * self._off * most * limit
            _check_at_most(f"the norm of {name!r}{when}", float(np.linalg.norm(value)), times * limit + beyond)

    def _check_within(
        self, name: str, matrix: str, arrays: Arrays, limit: float, times: float, most: float, when: str
    ) -> None:
        """x^T (G + e I)^-1 x <= m limit^2, with e at least what G may be off by, if it is.

        x is then off by at most sqrt(e) limit sqrt(r M), e being d r M L^2, which adds limit sqrt(r M) to the norm.
        """
        square = arrays[matrix]
        bound = self._fields[matrix].bound
        largest = math.inf if bound is None else bound.limit(self._problem, self._asked)
        off = 0.0 if self._off == 0 else len(square) * self._off * most * largest
        if math.isinf(off):
            return
        explained = _explained(square, arrays[name], off)
        reached = (math.sqrt(times) + math.sqrt(self._off * most)) * limit
        _check_at_most(f"{name!r}{when} in the norm of {matrix!r}", explained, reached)

    def _check_growth(self, name: str) -> None:
        """No total is less than the last one: of matrices no eigenvalue of the difference, of counts no entry."""
        before = self._past.contribution.totals.get(f"{self._kind}.{name}")
        value, field = self._arrays[name], self._fields[name]
        if before is None or before.shape != value.shape or self._off > 0:
            return
        if field.semidefinite:
            least = float(np.linalg.eigvalsh(value - before).min(initial=0.0))
            if not least >= -SLACK * max(float(np.trace(value)), SLACK):
                raise RejectedError(f"{name!r} is a total, and has shrunk by {-least:g} since the last one")
        elif field.counts and not (value >= before).all():
            raise RejectedError(f"{name!r} is a total, and smaller than the last one")


def check_symmetric(name: str, square: FloatArray) -> None:
    """Raise `RejectedError` unless a matrix is symmetric."""
    gap = np.abs(square - square.T).max(initial=0.0)
    if not gap <= SLACK * np.abs(square).max(initial=0.0):
        raise RejectedError(f"{name!r} is not symmetric: entries differ by {gap:g}")


def check_semidefinite(name: str, square: FloatArray) -> None:
    """Raise `RejectedError` if a matrix has a negative eigenvalue."""
    values = np.linalg.eigvalsh(square)
    if len(values) and not values[0] >= -SLACK * max(values[-1], 0.0):
        raise RejectedError(f"{name!r} is not positive semidefinite: its smallest eigenvalue is {values[0]:g}")


def _shown(value: FloatArray) -> str:
    return f"{value:g}" if value.ndim == 0 else f"{value.min():g}..{value.max():g}, {value.sum():g} in all"


def _check_at_most(what: str, value: float, bound: float) -> None:
    if not value <= bound * (1 + SLACK) + SLACK:  # also where it is not a number
        raise RejectedError(f"{what} is {value:g}, honest observations reach {bound:g}")


def _explained(gram: FloatArray, moment: FloatArray, off: float) -> float:
    """sqrt(x^T (G + e I)^-1 x), with e as small as rounding errors, and what G is `off` by, allow."""
    ridge = SLACK * max(float(np.trace(gram)), SLACK) + off
    return math.sqrt(max(float(np.sum(moment * np.linalg.solve(gram + ridge * np.eye(len(gram)), moment))), 0.0))
