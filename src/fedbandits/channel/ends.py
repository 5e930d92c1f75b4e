"""The ends of several stages at one side, as one."""

from __future__ import annotations

from collections.abc import Sequence

from fedbandits.channel.pace import Pace, unhurried
from fedbandits.channel.stage import SPOKEN_FOR, End, Observed
from fedbandits.contract.arrays import BoolArray, FloatArray, IntArray, State
from fedbandits.contract.compiled import untouched
from fedbandits.contract.messages import Message
from fedbandits.contract.protection import Protection


class Ends(End):
    """The ends of several stages at one side, as one: what leaves goes through the first stage first."""

    def __init__(self, ends: Sequence[End]) -> None:
        self._names = tuple(f"stage{place}" for place in range(len(ends)))
        for name, end in zip(self._names, ends, strict=True):
            setattr(self, name, end)
        self._all = tuple(ends)

    @property
    def keeps(self) -> tuple[str, ...]:  # type: ignore[override]
        """One part for each stage."""
        return self._names

    def outgoing(self, message: Message) -> Message:
        """See `End`."""
        for end in self._all:
            message = end.outgoing(message)
        return message

    def incoming(self, message: Message) -> Message:
        """See `End`."""
        for end in reversed(self._all):
            message = end.incoming(message)
        return message

    def returned(self, message: Message) -> Message | None:
        """See `End`."""
        left: Message | None = message
        for end in reversed(self._all):
            left = None if left is None else end.returned(left)
        return left

    def reached(self, who: IntArray) -> None:
        """See `End`."""
        for end in self._all:
            end.reached(who)

    @property
    def blind(self) -> bool:  # type: ignore[override]
        """Whether any of the stages says so."""
        return any(end.blind for end in self._all)

    @property
    def passes(self) -> bool:  # type: ignore[override]
        """See `End`."""
        return all(end.passes for end in self._all)

    def attributed(self, who: IntArray, persons: IntArray) -> None:
        """See `End`."""
        for end in self._all:
            end.attributed(who, persons)

    def observing(self, who: IntArray, arms: FloatArray, picks: IntArray, rewards: FloatArray) -> Observed:
        """See `End`: the stage next to the wire sees an observation first."""
        for end in reversed(self._all):
            arms, picks, rewards = end.observing(who, arms, picks, rewards)
        return arms, picks, rewards

    def calling(self, would: BoolArray) -> BoolArray:
        """See `End`."""
        for end in self._all:
            would = end.calling(would)
        return would

    def urgency(self, would: FloatArray | None) -> FloatArray | None:
        """See `End`."""
        for end in self._all:
            would = end.urgency(would)
        return would

    def pace(self, n: int, dim: int) -> Pace | None:
        """See `End`: where one stage at most does anything."""
        busy = [end for end in self._all if not untouched(end, End, *SPOKEN_FOR)]
        return unhurried(n, dim) if not busy else busy[0].pace(n, dim) if len(busy) == 1 else None

    def protection(self) -> Protection | None:
        """That of the only stage that protects anything."""
        return next((found for end in self._all if (found := end.protection()) is not None), None)

    def portrait(self) -> State:
        """See `End`."""
        return {name: array for end in self._all for name, array in end.portrait().items()}
