"""Rounds without the interpreter: what agents and worlds may say of themselves as compiled functions.

A simulation goes from step to step in Python unless both sides can do without: a world that has drawn several turns
beforehand hands them over as a `Block` (`World.block`), and a population hands over the arrays it is made up of
(`Population.compiled`) as a named tuple of a type of its own, for which it has said by `stands_for` how one agent of it
chooses, learns, and knows that it is time to talk. A world that moves has drawn what decides where choices lead, and
says in the same way what an agent sees (`show`) and what its choice brings (`pay`). `simulation.rounds` then plays turn
after turn until somebody has to be heard.

Even that needs no interpreter where a server knows agents that answer as these do: it hands over the arrays of both
(`Server.compiled`) and says by `stands_for` how they talk (`hear`), counting everything that crosses (`Books`). Agents
may then make something of what they were told as late as they next decide (`attend`): whoever looks at them after the
compiled loop finds nothing that is not up to date. Agents who talk to each other say how they `tell` and `heed`; what
carries it from one to the other is a `contract.post.Post`, in the place of a server.

Nothing may come out differently, to the last bit: compiled functions are used by the population's own methods as well,
or follow the same operations. `Population.choose`, `learn` and `calling` remain what an agent does; a subclass that
changes one of them is not spoken for by its base class (`untouched`).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple, TypeVar, cast

import numpy as np
from numba.core import types
from numba.extending import overload

from fedbandits.contract.arrays import FloatArray, IntArray
from fedbandits.contract.booking import Books
from fedbandits.linalg import ingredients
from fedbandits.linalg.jit import INSIDE, jit_inside

ADDED, BELOW = 0, 1
"""How a mean reward and a shock become a reward: mean + shock, or a height h where h times the shock lies below the
mean, else 0."""
NOTHING: FloatArray = np.empty((0, 0))

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
    """Where arms come from that are found right before a decision (`show`), and perhaps what choices bring (`pay`), in
    a named tuple of a type that `stands_for` knows: `arms` and `means` then have as many rows as that needs, and they,
    `best` and `chance` are room to write into. None where all of them are drawn."""
    height: float = 1.0
    """What is earned when the shock lies `BELOW`."""
    outliers: FloatArray = NOTHING
    """(B, w) what is earned instead, NaN where nothing is; of no size where that is so everywhere."""


def show(source: State, block: Block, s: int, a: int, i: int) -> int:
    """The row of `block.arms` that agent i sees in row s of `block`, where it is in place a. Whoever finds arms right
    before a decision writes them, their means, and the numbers (s, a) of `block.best` and `block.chance`.
    """
    raise NotImplementedError


def pay(source: State, block: Block, s: int, a: int, i: int, pick: int) -> tuple[float, float]:
    """The reward and the regret of agent i for `pick`, in row s of `block`, where it is in place a. A world that moves
    has moved then, and has written the number (s, a) of `block.chance`; for all others means and shocks say it.
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


HEARD, PENDING, FAILED = 0, 1, 2
"""How a step ends: the server has had the floor; it has to be given the floor by somebody else; agents were told what
nothing can be computed from."""


def hear(server: State, agents: State, due: bool, books: Books) -> int:
    """Give the server the floor after a step, in which somebody may have begun to call if `due`: `HEARD`, `FAILED`, or
    `PENDING` where it cannot have it here, and nothing has changed.
    """
    raise NotImplementedError


def attend(server: State, i: int) -> bool:
    """Agent i is about to decide: let it know what it was told. Whether that could be done."""
    raise NotImplementedError


def tell(agents: State, i: int, letters: FloatArray, row: int) -> None:
    """Agent i, having learned, writes what it tells its neighbours into `letters[row]`: all numbers of `say`'s arrays,
    one after the other, and behind them what would be computed of these by everybody who reads it.
    """
    raise NotImplementedError


def heed(agents: State, i: int, post: Any, newest: int, first: int, last: int) -> None:
    """Agent i takes in letters `first` to `last` of a `contract.post.Post`, in a round in which what was said begins at
    row `newest`, as `Population.hear` takes in an inbox.
    """
    raise NotImplementedError


def heed_all(agents: State, post: Any, newest: int) -> None:
    """All agents take in all their letters of a round; one agent after another (`heed`) where nothing else is said."""
    raise NotImplementedError


def has_room(agents: State, i: int, letters: int) -> bool:
    """Whether agent i can take in so many letters, and what it learns by itself next."""
    raise NotImplementedError


_MEANINGS: dict[tuple[type, Callable[..., Any]], Callable[..., Any]] = {}


def stands_for(what: Callable[..., Any], kind: type) -> Callable[[F], F]:
    """The decorated function, of `linalg.jit.jit_inside`, is what `show`, `pay`, `choose`, `learn`, `calls`, `hear`,
    `attend`, `tell`, `heed`, `heed_all`, `has_room`, or something else that is `meant`, does for states of type `kind`.
    """

    def remember(function: F) -> F:
        _MEANINGS[kind, what] = function
        return function

    return remember


def otherwise(what: Callable[..., Any]) -> Callable[[F], F]:
    """The decorated function is what `what` does for states of types for which nothing else stands."""

    def remember(function: F) -> F:
        _OF_ANYBODY[what] = function
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


@jit_inside
def _drawn_row(source: State, block: Block, s: int, a: int, i: int) -> int:
    """`show` of arms that are drawn."""
    return s * block.who.shape[1] + a if block.arms.shape[0] > 1 else 0


@jit_inside
def _drawn_pay(source: State, block: Block, s: int, a: int, i: int, pick: int) -> tuple[float, float]:
    """`pay` by means and shocks."""
    row = s * block.who.shape[1] + a if block.means.shape[0] > 1 else 0
    mean, shock = block.means[row, pick], block.shocks[s, a]
    reward = (block.height if block.height * shock < mean else 0.0) if block.law == BELOW else mean + shock
    if block.outliers.size > 0 and not np.isnan(block.outliers[s, a]):
        reward = block.outliers[s, a]
    return reward, block.best[s, a] - mean


@jit_inside
def _leave_pending(server: State, agents: State, due: bool, books: Books) -> int:
    """`hear` where no server is spoken for."""
    return PENDING


@jit_inside
def _know_already(server: State, i: int) -> bool:
    """`attend` where no server is spoken for."""
    return True


@jit_inside
def _one_after_another(agents: State, post: Any, newest: int) -> None:
    """`heed_all`."""
    for i in range(len(post.starts) - 1):
        heed(agents, i, post, newest, post.starts[i], post.starts[i + 1])


@jit_inside
def _has_always(agents: State, i: int, letters: int) -> bool:
    """`has_room` of agents who keep no letters."""
    return True


_OF_NOBODY: dict[Callable[..., Any], Callable[..., Any]] = {
    show: _drawn_row,
    hear: _leave_pending,
    attend: _know_already,
}
"""Where there is no source of arms, or no server that is spoken for."""
_OF_ANYBODY: dict[Callable[..., Any], Callable[..., Any]] = {
    pay: _drawn_pay,
    heed_all: _one_after_another,
    has_room: _has_always,
}
"""Where nothing else is said."""


def _meaning(what: Callable[..., Any], kind: Any) -> Callable[..., Any] | None:
    """What stands for `what`, states being of the compiler's type `kind`."""
    if isinstance(kind, types.NoneType):
        said = _OF_NOBODY.get(what)
    elif isinstance(kind, types.NamedTuple | types.NamedUniTuple):
        said = _MEANINGS.get((kind.instance_class, what))
    else:
        said = None
    return said if said is not None else _OF_ANYBODY.get(what)


def meant(what: F) -> F:
    """Whoever compiles a call of `what` compiles what stands for it instead (`stands_for`), its first argument being a
    named tuple.
    """

    def choice(agents: Any, *rest: Any) -> Any:
        function = _meaning(what, agents)
        return None if function is None else getattr(function, "py_func", function)

    overload(what, strict=False, jit_options=cast(Any, INSIDE))(choice)
    tables = _OF_NOBODY, _OF_ANYBODY
    ingredients.means(what, lambda kind: [_MEANINGS.get((kind, what)), *(table.get(what) for table in tables)])
    return what


for _function in (show, pay, choose, learn, calls, hear, attend, tell, heed, heed_all, has_room):
    meant(_function)
