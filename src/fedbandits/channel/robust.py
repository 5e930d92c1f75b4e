"""Robust sums: statistics are added up so that a minority of liars cannot steer the pool."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Annotated, ClassVar, Literal

import numpy as np
from pydantic import Field

from fedbandits.channel.field_arrays import FieldArrays
from fedbandits.channel.robust_rules import Filter, GeometricMedian, Pair, Rule, Trimmed
from fedbandits.channel.stage import End, check_star
from fedbandits.contract.arrays import Array, BoolArray, IntArray
from fedbandits.contract.catalogue import About, AboutStage
from fedbandits.contract.errors import ConfigError
from fedbandits.contract.messages import Message
from fedbandits.contract.parameters import parameters
from fedbandits.contract.problem import Problem
from fedbandits.contract.streams import Streams
from fedbandits.contract.wire import Direction, Utterance

_FEW = 3
"""With fewer agents than this there is no majority to go by."""
_NOTHING = 1e-12
"""A row that is smaller than this share of the largest one is what is left of one by rounding."""


@parameters
class Robust:
    """Sums over agents that some of them may be lying about; nothing changes at the agents' side.

    The server's end keeps what every agent i has handed over so far, gram A_i, moment b_i and count, and lets the
    algorithm's server have, in place of increments, what its own sums lack of the aggregate: an agent that becomes
    suspected loses all it ever contributed, and has it back when it no longer is. With m agents heard of, V_i = A_i +
    `ridge` I and c the geometric median of the ridge estimates V_i^-1 b_i, `rule` is

    - ``"filter"``: the sum over those who remain when first everybody with implausibly much data is left out,
      trace(A_i) above `much` times the median and above what the amounts' own spread explains (3.5 robust standard
      deviations of their logarithms), and then everybody whom the others contradict: ||b_i - A_i c||^2 in the norm of
      V_i^-1 above `beyond` times the median, or above what one in a thousand has of chi-square scores, if that is more,
      as it is for d < 7. The norm is of what c leaves unexplained, so that an agent with little data is close to
      everybody. Where nobody is suspected every sum is as without the stage, to the last bit.
    - ``"geometric-median"``: m times the geometric median of the stacked (A_i, b_i), a convex combination of them
      and hence semidefinite.
    - ``"trimmed"``: m times the mean of each entry without its ⌊`trim` m⌋ lowest and highest values; negative
      eigenvalues of the matrix, which trimming entries may cause, become zero.

    Assumes one parameter for everybody: an honest minority that differs is excluded like liars are, so clusters need a
    stage each. The filter's `much` assumes that most agents are about equally active, or that activity varies smoothly;
    one honest agent with ten times everybody else's data is left out, unless `much` is infinite. The two other rules
    count everybody alike and lose what some know beyond the typical agent. Liars must be fewer than half, and fewer
    than the share `trim` of the trimmed mean.

    Guarantee: the geometric median of points is off by at most 2 (1 - a)/(1 - 2a) times the spread of the honest
    ones for a share a < 1/2 of liars; none of the three has a theorem for the regret. Confidence sets are those of
    exact sums. `rclb` is the algorithm that has one, for fixed arm sets.
    """

    rule: Literal["filter", "geometric-median", "trimmed"] = "filter"
    beyond: Annotated[float, Field(ge=1)] = 4.0
    much: Annotated[float, Field(ge=1)] = 1.5
    trim: Annotated[float, Field(ge=0, lt=0.5)] = 0.25
    ridge: Annotated[float, Field(gt=0, allow_inf_nan=False)] = 1.0

    about: ClassVar[AboutStage] = AboutStage(
        name="robust",
        summary="sums that a minority of liars cannot steer: filter, geometric median or trimmed mean",
        source="Vardi & Zhang (2000) for the geometric median, Yin et al. (ICML 2018) for trimming; the filter is ours",
        rows="needs",
    )

    def declares(self, about: About) -> About:
        """See `Stage`."""
        check_star("robust", about, "algorithms that send statistics to a server, such as dislinucb")
        if about.private:
            raise ConfigError(
                f"robust: what {about.name} sends carries noise, which looks like lies before the noise stage's own "
                "server has repaired it; let robust stand first, as in dislinucb|robust|gaussian"
            )
        for utterance in about.says:
            if utterance.direction == "up":
                _check_judged(about.name, utterance)
        return replace(
            about,
            name=f"{about.name}|robust",
            says=tuple(_by_rows(utterance) for utterance in about.says),
            guarantee=f"none proved with the rule {self.rule}; for plain sums of honest agents: {about.guarantee}",
        )

    def poses(self, problem: Problem) -> Problem:
        """See `Stage`: honest sums stay as they are."""
        return problem

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
        return _Open() if away == "up" else _Judge(self.judged_by(), says, n, sizes)

    def judged_by(self) -> Rule:
        """The rule with its parameters."""
        if self.rule == "filter":
            return Filter(self.beyond, self.much, self.ridge)
        return GeometricMedian() if self.rule == "geometric-median" else Trimmed(self.trim)


def pair_of(utterance: Utterance) -> Pair | None:
    """The increments A and b of an utterance: a semidefinite matrix, and a vector that is declared to lie within it.

    None unless there is one such pair.
    """
    handed = [item for item in utterance.fields if item.adds == "increment"]
    pairs = [
        Pair(square.name, item.name)
        for square in handed
        for item in handed
        if square.semidefinite and item.bound is not None and item.bound.within == square.name
    ]
    return pairs[0] if len(pairs) == 1 else None


def _check_judged(name: str, utterance: Utterance) -> None:
    """Raise unless everything in an utterance of agents can be judged, or says nothing of their data."""
    pair = pair_of(utterance)
    if pair is None:
        raise ConfigError(
            f"robust: what {name} sends as {utterance.kind!r} is no increment of a matrix and a vector within it, so "
            "that nobody can say what of it is a lie; use dislinucb or fedlinucb-async"
        )
    for item in utterance.fields:
        if item.adds == "increment" and not item.pooled:
            raise ConfigError(
                f"robust: the server of {name} uses {item.name!r} of single agents, and not only their sum, so that a "
                "lie cannot be taken back; use dislinucb or fedlinucb-async"
            )
        if item.adds != "increment" or not (item.counts or item.name in (pair.matrix, pair.vector)):
            raise ConfigError(f"robust: {item.name!r} of {name} is neither a sum that can be judged nor a count")


def _by_rows(utterance: Utterance) -> Utterance:
    """What agents say is looked at one by one."""
    if utterance.direction != "up":
        return utterance
    return replace(utterance, fields=tuple(replace(item, pooled=False) for item in utterance.fields))


def _is_something(rows: Array) -> BoolArray:
    """(n,) whose row (n, ...) is more than what rounding leaves of a sum that was taken back."""
    sizes = np.abs(rows).reshape(len(rows), -1).max(axis=1)
    return np.asarray(sizes > _NOTHING * sizes.max())


class _Open(End):
    """The agents' end: nothing happens here."""

    def outgoing(self, message: Message) -> Message:
        """The same."""
        return message

    def incoming(self, message: Message) -> Message:
        """The same."""
        return message


class _Judge(End):
    """The server's end. `sums` (n, ...) are what each agent has handed over, `told` (...) what the server was made to
    add up, and `plain` (m,), by kind of message, whether that is the sum of everything.
    """

    keeps: ClassVar[tuple[str, ...]] = ("sums", "told", "plain")

    def __init__(self, rule: Rule, says: tuple[Utterance, ...], n: int, sizes: Mapping[str, int]) -> None:
        self._rule = rule
        heard = [utterance for utterance in says if utterance.direction == "up"]
        self._pairs = {utterance.kind: pair for utterance in heard if (pair := pair_of(utterance)) is not None}
        self._places = {kind: place for place, kind in enumerate(self._pairs)}
        shapes = {
            f"{utterance.kind}-{item.name}": tuple(
                size if isinstance(size, int) else sizes[str(size)] for size in item.shape
            )
            for utterance in heard
            for item in utterance.fields
        }
        self.sums = FieldArrays({name: (n, *shape) for name, shape in shapes.items()})
        self.told = FieldArrays(shapes)
        self.plain = np.ones(len(self._pairs), dtype=np.bool_)

    def outgoing(self, message: Message) -> Message:
        """What the server says stays as it is."""
        return message

    def incoming(self, message: Message) -> Message:
        """Rows whose sum takes the server's own sums to the aggregate: as they came, while nobody is suspected."""
        kind, pair, place = message.kind, self._pairs[message.kind], self._places[message.kind]
        sums = {name: self._of(self.sums, kind, name) for name in message.arrays}
        told = {name: self._of(self.told, kind, name) for name in message.arrays}
        for name, fresh in message.arrays.items():
            sums[name][message.who] += fresh
        known = np.flatnonzero(_is_something(sums[pair.matrix]) | _is_something(sums[pair.vector]))
        judged = self._judged({name: values[known] for name, values in sums.items()}, known, pair)
        if judged is None and self.plain[place]:
            for name, fresh in message.arrays.items():
                told[name] += fresh.sum(axis=0)
            return message
        self.plain[place] = judged is None
        arrays: dict[str, Array] = {}
        for name, fresh in message.arrays.items():
            arrays[name] = np.zeros_like(fresh)
            arrays[name][0] = (sums[name].sum(axis=0) if judged is None else judged[name]) - told[name]
            told[name] += arrays[name][0]  # as the server adds it up, so that rounding does not accumulate
        return replace(message, arrays=arrays)

    def _judged(self, rows: dict[str, Array], known: IntArray, pair: Pair) -> dict[str, Array] | None:
        return None if len(known) < _FEW else self._rule.aggregate(rows, pair)

    @staticmethod
    def _of(arrays: FieldArrays, kind: str, name: str) -> Array:
        held = arrays.of(kind, name)
        assert held is not None
        return held
