"""Trust at the door: what an agent sends is looked at before the server takes it in.

A reply that is not what honest observations can add up to is rejected as a whole. With n observations of arms x of
norm at most L and rewards y of size at most R, honest statistics satisfy

    gram = sum x x^T symmetric and positive semidefinite, trace(gram) <= n L^2, 0 <= n <= horizon,
    moment = sum y x with moment^T (gram + e I)^-1 moment <= sum y^2 <= n R^2 for every e > 0,

and a gradient of n losses at theta has norm at most n L (sup |mu(<x, theta>)| + R). n is the reply's own count where
it sends one, and the horizon otherwise.

What this does not do: it bounds what a liar can claim, it does not find lies that keep within these bounds. Statistics
of private algorithms carry noise, so that for them only kind, shape, finiteness and symmetry are checked.
"""

from __future__ import annotations

import math

import numpy as np

from fedbandits.contract.algorithm import Algorithm, sizes_of
from fedbandits.contract.arrays import Array, FloatArray
from fedbandits.contract.messages import Message
from fedbandits.contract.problem import Problem
from fedbandits.contract.wire import Utterance, Wire, WireError
from fedbandits.deploy.flower.manners import Form, Newcomer
from fedbandits.linalg.links import LinkName

_ALONE = np.zeros(1, dtype=np.int64)
_SLACK = 1e-6
"""How far, relatively, sums of floating point numbers may be beyond a bound."""
_CHANCE = 1e-12
"""With which probability any sub-Gaussian reward of the whole run may exceed the bound that rewards are held to."""
_LARGEST_MEAN: dict[LinkName, float] = {"logistic": 1.0, "probit": 1.0}


class RejectedError(ValueError):
    """A reply that is not what honest observations add up to."""


class Inspector:
    """Reads replies to the requests of one algorithm."""

    def __init__(self, algorithm: Algorithm, problem: Problem, wire: Wire) -> None:
        self._about = algorithm.about
        self._problem = problem
        self._wire = wire
        self._sizes = sizes_of(algorithm, problem)
        self._reward = largest_reward(problem)
        self._newcomer = Newcomer(algorithm, problem)

    def is_question(self, letter: bytes) -> bool:
        """Whether a server's `letter` is to be answered."""
        return self._newcomer.form(letter) is not None

    def read(self, content: bytes, letter: bytes) -> tuple[str, dict[str, Array]]:
        """The kind and arrays of a reply to a server's `letter`; raises `RejectedError`."""
        try:
            kind, arrays = Wire.decode(content)
            reply = Message(kind, _ALONE, {name: value[None] for name, value in arrays.items()})
            self._wire.check(reply, "up")
        except WireError as error:
            raise RejectedError(str(error)) from None
        form = self._newcomer.form(letter)
        if form != Form(kind, frozenset(arrays)):
            raise RejectedError(f"the reply is {kind!r} with {sorted(arrays)}, which is no answer to what was asked")
        metered = self._wire.size(reply, "up").bytes
        if len(content) != metered:
            raise RejectedError(f"the reply has {len(content)} bytes, the meter counts {metered} for what it holds")
        for name, value in arrays.items():
            if value.dtype != np.float64:
                raise RejectedError(f"{name!r} is of type {value.dtype}, not float64")
            if not np.isfinite(value).all():
                raise RejectedError(f"{name!r} is not finite")
        try:
            with np.errstate(all="ignore"):  # numbers may be so large that sums of them are not finite
                for name in self._symmetric(kind) & arrays.keys():
                    _check_symmetric(name, arrays[name])
                if not self._about.private:
                    self._check_sums(kind, arrays, Wire.decode(letter)[1])
        except np.linalg.LinAlgError as error:
            raise RejectedError(f"its matrices cannot be decomposed: {error}") from None
        return kind, arrays

    def _check_sums(self, kind: str, arrays: dict[str, Array], asked: dict[str, Array]) -> None:
        problem = self._problem
        for name in self._symmetric(kind) & arrays.keys():
            _check_semidefinite(name, arrays[name])
        observations = float(problem.horizon)
        if "count" in arrays:
            count = float(arrays["count"])
            if not 0 <= count <= problem.horizon or count != round(count):
                raise RejectedError(f"'count' is {count:g}; an agent has 0..{problem.horizon} observations")
            observations = count
        if "level" in arrays and arrays["level"] < 0:
            raise RejectedError(f"'level' is {float(arrays['level']):g}, a trigger's level is not negative")
        if "gram" in arrays:
            _check_at_most("the trace of 'gram'", np.trace(arrays["gram"]), observations * problem.arm_norm**2)
        if "moment" in arrays and self._sums_rewards(kind):
            explained = _explained(arrays["gram"], arrays["moment"])
            _check_at_most("'moment' in the norm of 'gram'", explained, math.sqrt(observations) * self._reward)
        if "gradient" in arrays and "theta" in asked:
            slope = _largest_mean(problem, asked["theta"]) + self._reward
            bound = observations * problem.arm_norm * slope
            _check_at_most("the norm of 'gradient'", float(np.linalg.norm(arrays["gradient"])), bound)

    def _symmetric(self, kind: str) -> set[str]:
        return {item.name for item in self._up(kind).fields if item.symmetric}

    def _sums_rewards(self, kind: str) -> bool:
        """Whether the moment is over whole arms; a block's moment has what other blocks explain taken out of it."""
        shapes = {item.name: item.shape for item in self._up(kind).fields}
        return [self._sizes.get(str(size), size) for size in shapes["moment"]] == [self._problem.dim]

    def _up(self, kind: str) -> Utterance:
        return next(item for item in self._about.says if item.kind == kind and item.direction == "up")


def largest_reward(problem: Problem) -> float:
    """R: a bound on the size of all rewards of the federation; infinite where nothing is known.

    `Problem.range` if it is given. Otherwise the largest mean plus what sub-Gaussian noise exceeds in any of the
    n T rewards with a probability of 10^-12 at most.
    """
    if problem.range is not None:
        return max(abs(problem.range[0]), abs(problem.range[1]))
    if problem.moment is not None:
        return math.inf
    rewards = problem.agents * problem.horizon
    return _largest_mean(problem, None) + problem.noise * math.sqrt(2 * math.log(2 * rewards / _CHANCE))


def _largest_mean(problem: Problem, theta: FloatArray | None) -> float:
    """The largest |mu(<theta, x>)|; None stands for any theta within its bound."""
    if problem.link in _LARGEST_MEAN:
        return _LARGEST_MEAN[problem.link]
    norm = problem.bound if theta is None else float(np.linalg.norm(theta))
    reach = norm * problem.arm_norm
    if problem.link == "identity":
        return reach
    return math.exp(min(reach, 700.0))  # exp(700) is as good as no bound, and still a number


def _check_symmetric(name: str, square: FloatArray) -> None:
    if square.ndim != 2:
        return
    gap = np.abs(square - square.T).max(initial=0.0)
    if not gap <= _SLACK * np.abs(square).max(initial=0.0):
        raise RejectedError(f"{name!r} is not symmetric: entries differ by {gap:g}")


def _check_semidefinite(name: str, square: FloatArray) -> None:
    values = np.linalg.eigvalsh(square)
    if not values[0] >= -_SLACK * max(values[-1], 0.0):
        raise RejectedError(f"{name!r} is not positive semidefinite: its smallest eigenvalue is {values[0]:g}")


def _check_at_most(what: str, value: float, bound: float) -> None:
    if not value <= bound * (1 + _SLACK) + _SLACK:  # also where it is not a number
        raise RejectedError(f"{what} is {value:g}, honest observations reach {bound:g}")


def _explained(gram: FloatArray, moment: FloatArray) -> float:
    """sqrt(moment^T (gram + e I)^-1 moment), with e as small as rounding errors allow."""
    ridge = _SLACK * max(float(np.trace(gram)), _SLACK)
    return math.sqrt(max(float(moment @ np.linalg.solve(gram + ridge * np.eye(len(gram)), moment)), 0.0))
