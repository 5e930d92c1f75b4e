"""A node as `fedbandits.deploy.flower.node`, but one that misbehaves in the way that a file beside its agent names.

Run as a program, with the same options. The agent is honest: what it answers is changed on its way out, or what it is
sent is replayed on its way in.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np

from fedbandits.contract.arrays import Array
from fedbandits.contract.messages import Message
from fedbandits.contract.wire import Wire
from fedbandits.deploy.flower.conversation.desk import Desk
from fedbandits.deploy.flower.post import Answer, Letter, Presence

Arrays = dict[str, Array]
Lie = Callable[[Arrays], Arrays]

LIES: dict[str, Lie] = {
    "nan": lambda held: {"moment": held["moment"] * np.nan},
    "shape": lambda held: {"moment": np.zeros(held["moment"].size + 2)},
    "asymmetric": lambda held: {"gram": held["gram"] + np.triu(np.ones_like(held["gram"]), 1)},
    "indefinite": lambda held: {"gram": held["gram"] - 100 * np.eye(len(held["gram"]))},
    "large": lambda held: {"gram": held["gram"] + 1e6 * np.eye(len(held["gram"]))},
}
"""What is sent instead of honest statistics."""
PILLS: dict[str, Lie] = {
    "thirteen": lambda held: {
        "points": np.eye(1, held["points"].shape[1]),
        "counts": np.array([13]),
        "sums": np.array([13.0]),
    },
    "gradient": lambda held: {"gradient": np.full_like(held["gradient"], 1e8)},
}
"""What a server may not be able to bear."""
REPLAYS, LOSES = "replays", "loses"
"""The node hands every letter to the agent twice, and after it the first one ever; or its first answer to every letter
gets lost, so that the server sends it again."""


def behave(agent: Path, behaviour: str) -> None:
    """Tell the misbehaving node of `agent` what to do from now on."""
    _file(agent).write_text(behaviour)


def told(answer: Answer, lie: Lie) -> Answer:
    """`answer`, with a lie in it."""
    if answer.content is None:
        return answer
    kind, held = Wire.decode(answer.content)
    named = {name: value[None] for name, value in (held | lie(held)).items()}
    return Answer(Wire().encode(Message(kind, np.zeros(1, dtype=np.int64), named), 0, "up"), letters=answer.letters)


class MisbehavingDesk(Desk):
    """Answers for an honest agent, on behalf of a node that is not."""

    _heard: tuple[Letter, ...] = ()

    def ring(self) -> Presence:
        """A liar does not call by itself, so that the others can be compared with a run without it."""
        presence = super().ring()
        return Presence(calling=False, letters=presence.letters) if self._behaviour in LIES else presence

    def answer(self, letter: Letter) -> Answer:
        behaviour = self._behaviour
        answer = super().answer(letter)
        known, self._heard = letter in self._heard, (*self._heard, letter)
        if behaviour in LIES | PILLS:
            return told(answer, (LIES | PILLS)[behaviour])
        if behaviour == REPLAYS:
            super().answer(letter)
            super().answer(self._heard[0])
        if behaviour == LOSES and not known:
            raise ConnectionError("the answer got lost")
        return answer

    @property
    def _behaviour(self) -> str:
        return _file(self._agent.path).read_text()


def _file(agent: Path) -> Path:
    return agent.with_suffix(".behaviour")


if __name__ == "__main__":
    from fedbandits.deploy.flower import client_app, node

    vars(client_app)["Desk"] = MisbehavingDesk
    node.main()
