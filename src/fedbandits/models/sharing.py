"""How statistics travel: what agents hand over and what they are told, for every family whose statistics add up."""

from __future__ import annotations

import numpy as np

from fedbandits.contract.arrays import FloatArray
from fedbandits.contract.messages import Message
from fedbandits.contract.wire import Adds, Bound, Utterance, WireField, matrix, vector
from fedbandits.models.limits import arm_square, reward

COLLECT = Utterance("collect", "down")
"""The server's signal: send me what is new."""


def counting(*, adds: Adds | None = None, pooled: bool = False, optional: bool = True) -> WireField:
    """The number of observations inside a message; only some widths need it."""
    return WireField("count", optional=optional, adds=adds, pooled=pooled, counts=True)


def statistics(size: str = "d", *, adds: Adds | None = None, pooled: bool = False) -> tuple[WireField, ...]:
    """Sufficient statistics of dimension `size`: gram sum x x^T, moment sum y x, and their number where it is needed.

    With m observations of arms of norm at most L and rewards of size at most R, trace(gram) <= m L^2 and
    moment^T gram^+ moment <= m R^2.
    """
    return (
        matrix("gram", size, adds=adds, pooled=pooled, apart=True, bound=Bound(arm_square)),
        vector("moment", size, adds=adds, pooled=pooled, apart=True, bound=Bound(reward, within="gram")),
        counting(adds=adds, pooled=pooled),
    )


FRESH = Utterance("fresh", "up", statistics(adds="increment"))
"""An agent's own observations since its last upload."""
POOLED_FRESH = Utterance("fresh", "up", statistics(adds="increment", pooled=True))
"""The same, to a server that uses nothing but their sum."""
POOL = Utterance("pool", "down", statistics(adds="total"))
"""Everything the server knows, in place of what the agent had from it."""
NEWS = Utterance("news", "down", statistics(adds="increment"))
"""What has reached the server but not yet the agent, to be added."""


def handed_over(sent: Message, observed: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
    """The statistics inside `sent`; where counts were not sent, they are those that its senders have `observed`."""
    arrays = sent.arrays
    return arrays["gram"], arrays["moment"], arrays.get("count", observed)


def told(message: Message) -> tuple[FloatArray, FloatArray, FloatArray]:
    """The statistics inside `message`; counts that were not sent are zero."""
    arrays = message.arrays
    return arrays["gram"], arrays["moment"], arrays.get("count", np.zeros(len(message.who)))
