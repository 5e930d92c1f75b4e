"""What planners say: transitions as they were made."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from fedbandits.contract.arrays import Array, IntArray
from fedbandits.contract.facts import Episodes
from fedbandits.contract.messages import Message
from fedbandits.contract.problem import Problem
from fedbandits.contract.wire import Bound, Ragged, Utterance, WireError, WireField
from fedbandits.models.limits import longest, reward
from fedbandits.models.sharing import COLLECT
from fedbandits.models.transitions import Told

__all__ = ["COLLECT", "NEWS", "TRANSITIONS", "in_message", "length_of", "of_message"]

_ROWS, _VIEWS, _MANY = "arms", "views", "transitions"


def length_of(problem: Problem) -> int:
    """H; 1 where decisions do not come in episodes."""
    return problem.get(Episodes, Episodes(1)).length


def _seen(problem: Problem, asked: Mapping[str, Array]) -> float:
    """A transition is about two views, of K arms each that are no longer than L."""
    return 2 * problem.arms * longest(problem)


def _sizes(problem: Problem, asked: Mapping[str, Array]) -> float:
    return 2.0 * problem.arms


def _stage(problem: Problem, asked: Mapping[str, Array]) -> float:
    return float(length_of(problem))


def _row(problem: Problem, asked: Mapping[str, Array]) -> float:
    """No row, or view, is beyond all that an agent can have seen."""
    return 2.0 * problem.arms * problem.horizon


def _once(problem: Problem, asked: Mapping[str, Array]) -> float:
    return 1.0


def _fields(*, up: bool) -> tuple[WireField, ...]:
    """A list of transitions that stands for itself; see `models.transitions.Told`."""
    many = Ragged(_MANY)

    def bound(limit: object, low: float = 0.0) -> Bound | None:
        return Bound(limit, low=low) if up else None  # type: ignore[arg-type]

    return (
        WireField("arms", (Ragged(_ROWS), "p"), raw=True, adds="increment", bound=Bound(_seen) if up else None),
        WireField("sizes", (Ragged(_VIEWS),), "i4", adds="increment", bound=bound(_sizes)),
        WireField("stage", (many,), "i4", adds="increment", bound=bound(_stage)),
        WireField("arm", (many,), "i4", adds="increment", bound=bound(_row)),
        WireField("to", (many,), "i4", adds="increment", bound=bound(_row, -1.0)),
        WireField("number", (many,), "i4", adds="increment", bound=bound(_once)),
        WireField("reward", (many,), raw=True, adds="increment", bound=Bound(reward) if up else None),
    )


TRANSITIONS = Utterance("transitions", "up", _fields(up=True))
"""All transitions of episodes that an agent has finished since its last upload, as they were made: equal ones once,
with their number and the sum of their rewards."""
NEWS = Utterance("news", "down", _fields(up=False))
"""What everybody has handed over since the agent was last told, its own among it; by whom is not said."""


def in_message(kind: str, who: IntArray, told: Told) -> Message:
    """`told` as it travels: one list for each of `who`, or one that is shown to all of them."""
    arrays: dict[str, Array] = {
        "arms": told.arms,
        "sizes": told.sizes.astype(np.int32),
        "stage": told.stage.astype(np.int32),
        "arm": told.arm.astype(np.int32),
        "to": told.to.astype(np.int32),
        "number": told.number.astype(np.int32),
        "reward": told.reward,
    }
    lengths = {_ROWS: told.rows, _VIEWS: told.views, _MANY: told.many}
    if len(told.many) == 1 and len(who) != 1:
        arrays = {name: np.broadcast_to(array, (len(who), *array.shape[1:])) for name, array in arrays.items()}
        lengths = {name: np.repeat(held, len(who)) for name, held in lengths.items()}
    return Message(kind, who, arrays, lengths)


def of_message(message: Message, length: int) -> Told:
    """The lists inside `message`, of episodes of `length` H; one where it is the same for all.

    Raises `WireError` where a list does not fit itself: whoever reads it goes by its indices.
    """
    arrays, lengths = message.arrays, message.lengths
    one = len(message.who) > 1 and arrays["arms"].strides[0] == 0
    rows = slice(0, 1) if one else slice(None)

    def whole(name: str) -> IntArray:
        return np.ascontiguousarray(arrays[name][rows], dtype=np.int64)

    sizes, stage, arm, to, number = (whole(name) for name in ("sizes", "stage", "arm", "to", "number"))
    told = Told(
        arms=np.ascontiguousarray(arrays["arms"][rows]),
        sizes=sizes,
        stage=stage,
        arm=arm,
        to=to,
        number=number,
        reward=np.ascontiguousarray(arrays["reward"][rows]),
        views=np.ascontiguousarray(lengths[_VIEWS][rows]),
        many=np.ascontiguousarray(lengths[_MANY][rows]),
    )
    if not told.fits(length):
        raise WireError(f"message {message.kind!r} is no list of transitions: its numbers point beyond what is in it")
    return told
