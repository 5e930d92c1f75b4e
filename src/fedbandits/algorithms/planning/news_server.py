"""A server that passes transitions on."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from fedbandits.algorithms.planning.messages import COLLECT, NEWS, in_message, of_message
from fedbandits.contract.arrays import IntArray
from fedbandits.contract.messages import Conversation, Message
from fedbandits.contract.server import Server
from fedbandits.models.transitions import Transitions


class NewsServer(Server):
    """When somebody calls: collect everybody's new transitions, and tell everybody all that is new to it.

    `mail` has what each agent has yet to be told, because it was out of reach: nothing, where everybody is there.
    """

    keeps: ClassVar[tuple[str, ...]] = ("mail",)
    waits: ClassVar[bool] = True

    def __init__(self, mail: Transitions) -> None:
        self.mail = mail
        self._everybody = np.arange(len(mail.rows) // mail.length)

    def converse(self, callers: IntArray) -> Conversation:
        """One round of transitions: two requests."""
        if len(callers) == 0:
            return
        sent = yield Message(COLLECT.kind, self._everybody)
        if len(sent.who) == 0:
            return
        length, mail = self.mail.length, self.mail
        new = of_message(sent, length).merged(length)
        if mail.any().any():
            mail.absorb(self._everybody, new)
            heard = yield in_message(NEWS.kind, self._everybody, mail.told(self._everybody, 0))
            mail.clear(heard.who, 0)
        else:
            heard = yield in_message(NEWS.kind, self._everybody, new)
            mail.absorb(np.setdiff1d(self._everybody, heard.who), new)
