"""The meter: everything that crosses the wire, counted once, by whoever carries it.

Units, since the publications disagree on them:

- a *message* is a transfer between one agent and the server, or over one link, that carries at least one array;
- a *signal* is a transfer that carries none (a call, "send me your statistics"): the publications do not
  count them, so they are counted apart and weigh nothing;
- *scalars* are the numbers inside messages, *bytes* the length of the serialised messages;
- a *synchronisation* is a conversation in which the server asked for or told anything, or, among peers, a
  round in which anybody spoke.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from fedbandits.contract.arrays import IntArray
from fedbandits.contract.messages import Message
from fedbandits.contract.state import Stateful
from fedbandits.contract.wire import Direction, Size, Wire

UNITS = ("messages", "signals", "scalars", "bytes")
DIRECTIONS: tuple[Direction, ...] = ("up", "down", "peer")
_ROWS = {direction: row for row, direction in enumerate(DIRECTIONS)}


def row_of(direction: Direction) -> int:
    """The row of `Ledger.counts` in which a direction is counted."""
    return _ROWS[direction]


@dataclass(frozen=True, slots=True)
class Tally:
    """Counts in the four units."""

    messages: int
    signals: int
    scalars: int
    bytes: int


class Ledger(Stateful):
    """Counts per direction since the beginning of a run.

    >>> import numpy as np
    >>> ledger = Ledger()
    >>> ledger.record(Message("hello", np.arange(3), {"v": np.zeros((3, 5))}), "up", Wire())
    >>> ledger.up.messages, ledger.up.scalars, ledger.down.messages
    (3, 15, 0)
    """

    keeps: ClassVar[tuple[str, ...]] = ("counts", "conversations")

    def __init__(self) -> None:
        self.counts = np.zeros((len(DIRECTIONS), len(UNITS)), dtype=np.int64)
        self.conversations = np.zeros((), dtype=np.int64)

    def record(
        self,
        message: Message,
        direction: Direction,
        wire: Wire,
        copies: IntArray | None = None,
        *,
        rounds: int = 1,
        size: Size | None = None,
    ) -> None:
        """Count `message`: every agent's share once, or `copies` (w,) times each; `rounds` messages that look alike are
        counted at once. `size` is what a share weighs, where the wire has just said so (`Wire.check`).
        """
        if copies is not None and copies.shape != message.who.shape:
            raise ValueError(f"copies needs one number for each of {len(message.who)} agents, got {copies.shape}")
        times = rounds * (len(message.who) if copies is None else int(copies.sum()))
        row = self.counts[_ROWS[direction]]
        if not message.arrays:
            row[1] += times
        elif not message.lengths:  # all shares weigh the same
            if size is None:
                size = wire.size(message, direction)
            row[0] += times
            row[2] += times * size.scalars
            row[3] += times * size.bytes
        else:
            scalars, weights = wire.sizes_of(message, direction)
            each = rounds if copies is None else rounds * copies
            row += (times, 0, int((each * scalars).sum()), int((each * weights).sum()))

    def call(self, callers: int) -> None:
        """Count the calls that asked the server for a conversation."""
        self.counts[0, 1] += callers

    def synchronised(self) -> None:
        """Count one conversation."""
        self.conversations += 1

    @property
    def up(self) -> Tally:
        """From agents to the server."""
        return Tally(*self.counts[0].tolist())

    @property
    def down(self) -> Tally:
        """From the server to agents."""
        return Tally(*self.counts[1].tolist())

    @property
    def peer(self) -> Tally:
        """From agent to agent, one count per link crossed."""
        return Tally(*self.counts[2].tolist())

    @property
    def syncs(self) -> int:
        """Conversations held."""
        return int(self.conversations)
