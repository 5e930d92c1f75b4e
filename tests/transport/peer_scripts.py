"""Peers that say what is written: what relays are tried on."""

from __future__ import annotations

import numpy as np

from fedbandits.contract.arrays import BoolArray, IntArray, State
from fedbandits.contract.messages import Inbox, Message
from fedbandits.contract.wire import Utterance, Wire, WireField
from fedbandits.testing.flood import Flood
from fedbandits.transport.relay import Relay


def same(left: State, right: State) -> bool:
    """Whether two snapshots agree in names, types, shapes and every bit."""
    return left.keys() == right.keys() and all(
        left[key].dtype == right[key].dtype
        and left[key].shape == right[key].shape
        and left[key].tobytes() == right[key].tobytes()
        for key in left
    )


TOLD = Utterance("told", "peer", (WireField("arm", dtype="i8"), WireField("reward", raw=True)))


class Script:
    """Peers that say what is written, arm and reward by agent for each round, and write down what they hear."""

    def __init__(self, lines: list[dict[int, tuple[int, float]]]) -> None:
        self.lines = lines
        self.step = 0
        self.heard: list[tuple[int, int, int, int, int, float]] = []
        """Round, receiver, origin, round of birth, arm and reward of every letter, in the order of the inboxes."""

    def say(self, learned: IntArray) -> list[Message]:
        line = self.lines[self.step] if self.step < len(self.lines) else {}
        if not line:
            return []
        names = sorted(line, reverse=True)  # a relay may not count on any order
        arms, rewards = np.array([line[i][0] for i in names]), np.array([line[i][1] for i in names])
        return [Message("told", np.array(names), {"arm": arms, "reward": rewards})]

    def hear(self, inbox: Inbox) -> None:
        origin, born = inbox.said.who[inbox.row], inbox.born[inbox.row]
        arm, reward = (inbox.said.arrays[name][inbox.row] for name in ("arm", "reward"))
        columns = (inbox.to, origin, born, arm, reward)
        self.heard += [(self.step, *letter) for letter in zip(*(column.tolist() for column in columns), strict=True)]

    def act(self, relay: Relay, rounds: int, reachable: list[BoolArray] | None = None) -> None:
        """Go on for so many rounds over `relay`."""
        for _ in range(rounds):
            relay.round(self, np.arange(0), self.step, None if reachable is None else reachable[self.step])
            self.step += 1

    def flooded(self, flood: Flood, wire: Wire, rounds: int, reachable: list[BoolArray] | None = None) -> list[int]:
        """The same, letter by letter; returns how many links were crossed in each round."""
        links = []
        for _ in range(rounds):
            letters = {
                int(i): wire.encode(said, row, "peer")
                for said in self.say(np.arange(0))
                for row, i in enumerate(said.who)
            }
            read, crossed = flood.round(self.step, letters, None if reachable is None else reachable[self.step])
            for to, letter in read:
                told = Wire.decode(letter.content)[1]
                line = (to, letter.origin, letter.born, int(told["arm"]), float(told["reward"]))
                self.heard.append((self.step, *line))
            links.append(len(crossed))
            self.step += 1
        return links
