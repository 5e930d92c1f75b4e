"""Rounds without the interpreter: what agents and worlds may say of themselves as compiled functions.

A simulation goes from step to step in Python unless both sides can do without: a world that has drawn several turns
beforehand hands them over as a `Block` (`World.block`), and a population hands over the arrays it is made up of
(`Population.compiled`) as a named tuple of a type of its own, for which it has said by `stands_for` how one agent of it
chooses, learns, and knows that it is time to talk. `simulation.rounds` then plays turn after turn until somebody has to
be heard.

Nothing may come out differently, to the last bit: compiled functions are used by the population's own methods as well,
or follow the same operations. `Population.choose`, `learn` and `calling` remain what an agent does; a subclass that
changes one of them is not spoken for by its base class (`untouched`).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple, TypeVar

from numba.core import types
from numba.extending import overload

from fedbandits.contract.arrays import FloatArray, IntArray
from fedbandits.linalg.jit import jit_inside

ADDED, BELOW = 0, 1
"""How a mean reward and a shock become a reward: mean + shock, or 1 where the shock lies below the mean, else 0."""

State = Any
"""A named tuple of arrays and numbers, of a type that `stands_for` knows."""
F = TypeVar("F", bound=Callable[..., Any])
K = TypeVar("K")


class Block(NamedTuple):
    """Turns that are drawn: row s of every array is step `first` + s, in which w agents are awake.

    Arms and mean rewards have a row for each decision (s, a), namely s w + a, or one row for all of them.
    """

    first: int
    who: IntArray
    """(B, w) who is awake."""
    arms: FloatArray
    """(B w, d, K), or (1, d, K): what they see, arm index last."""
    means: FloatArray
    """(B w, K), or (1, K): mean rewards."""
    best: FloatArray
    """(B, w) the highest of them."""
    chance: FloatArray
    """(B, w) their mean: what a uniformly random choice would bring."""
    shocks: FloatArray
    """(B, w) the randomness of rewards."""
    law: int
    """`ADDED` or `BELOW`."""
    source: State = None
    """Where arms come from that are found right before a decision (`show`), in a named tuple of a type that
    `stands_for` knows: `arms` and `means` then have one row, and they, `best` and `chance` are room to write into. None
    where all of them are drawn."""


def show(source: State, block: Block, s: int, a: int, i: int) -> None:
    """Write what agent i sees in row s of `block`, where it is in place a: `block.arms[0]`, `block.means[0]` and the
    numbers (s, a) of `block.best` and `block.chance`. Nothing where `source` is None.
    """
    raise NotImplementedError


def choose(agents: State, i: int, arms: FloatArray, row: int, room: FloatArray) -> int:
    """The arm that agent i takes of those in `arms[row]` (d, K); -1, nothing having changed, where a score is not
    finite, or where it has to be asked itself (`Population.choose`).

    `room` is for whatever is written in between (`linalg.kernels.room_for`).
    """
    raise NotImplementedError


def learn(agents: State, i: int, arms: FloatArray, row: int, pick: int, reward: float, room: FloatArray) -> bool:
    """Agent i takes in one observation; whether `Population.tend` has to be called before anything else happens."""
    raise NotImplementedError


def calls(agents: State, i: int) -> bool:
    """Whether agent i may be calling, having learned; `Population.calling` has the last word."""
    raise NotImplementedError


_MEANINGS: dict[tuple[type, Callable[..., Any]], Callable[..., Any]] = {}


def stands_for(what: Callable[..., Any], kind: type) -> Callable[[F], F]:
    """The decorated function, of `linalg.jit.jit_inside`, is what `show`, `choose`, `learn` or `calls` does for
    states of type `kind`.
    """

    def remember(function: F) -> F:
        _MEANINGS[kind, what] = function
        return function

    return remember


@jit_inside
def _never(agents: State, i: int) -> bool:
    return False


def quiet(kind: type[K]) -> type[K]:
    """The decorated type of states is one of agents that never call: what `calls` does for them is said."""
    _MEANINGS[kind, calls] = _never
    return kind


def untouched(one: object, base: type, *methods: str) -> bool:
    """Whether these methods of `one` are those of `base`: neither a subclass nor anybody else has put others there."""
    own = getattr(one, "__dict__", {})
    return _inherited(type(one), base, methods) and not any(name in own for name in methods)  # type: ignore[arg-type]


@cache
def _inherited(kind: type, base: type, methods: tuple[str, ...]) -> bool:
    return all(getattr(kind, name) is getattr(base, name) for name in methods)


def _meant(what: Callable[..., Any]) -> None:
    """Whoever compiles a call of `what` compiles a call of what stands for it."""

    def choice(agents: Any, *rest: Any) -> Any:
        if what is show and isinstance(agents, types.NoneType):
            return lambda agents, *rest: None
        named = isinstance(agents, types.NamedTuple | types.NamedUniTuple)
        function = _MEANINGS.get((agents.instance_class, what)) if named else None
        return None if function is None else lambda agents, *rest: function(agents, *rest)

    overload(what, strict=False, jit_options={"forceinline": True})(choice)


for _function in (show, choose, learn, calls):
    _meant(_function)
