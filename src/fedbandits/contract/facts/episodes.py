"""That decisions come in sequences."""

from __future__ import annotations

from typing import Annotated, ClassVar

from pydantic import Field

from fedbandits.contract.facts.fact import Fact
from fedbandits.contract.parameters import value


@value
class Episodes(Fact):
    """An agent's turns come in episodes of at most `length` stages H, and what it chooses moves the state it is in.

    What a stage shows: the arms of the h-th turn of an episode are the features phi(x_h, a) of all actions a in the
    state x_h. The arms of the agent's next turn are those of the state it has come to; nothing else tells where a
    choice has led.

    Stages are counted by each agent's own turns: one that is not awake for a while goes on where it was. After H turns
    an episode is over, and the next turn shows the first state of a new one. An episode that is over earlier says so by
    one turn whose arms are all zero: nothing is learned there, whatever is chosen pays nothing, and the next turn is
    the first of a new episode. Where a state has fewer actions than others, some of its arms are shown twice.
    """

    name: ClassVar[str] = "episodes"

    length: Annotated[int, Field(ge=1)]
