"""Flower's grid without Flower: messages to nodes in this process, which answer with what they are told to."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("flwr", reason="needs the extra fedbandits[deploy]")

from flwr.app import Error, Message
from flwr.supercore.task_identity import TaskIdentity

from fedbandits.deploy.flower.conversation.desk import Desk
from fedbandits.deploy.flower.messages import RING, answering, presenting, read_letter

Answering = Callable[[Message], Message]


def at_desk(desk: Desk) -> Answering:
    """What an honest node answers."""

    def answer(message: Message) -> Message:
        if message.metadata.message_type == RING:
            return presenting(message, desk.identity, desk.fingerprint, desk.ring())
        return answering(message, desk.answer(read_letter(message)))

    return answer


class LocalGrid:
    """A grid as `flwr.superlink.grid.HttpGrid`, whose nodes are functions. What one of them raises is raised when its
    reply is pulled, as Flower does with bytes that it cannot read; None is silence.
    """

    def __init__(self, nodes: dict[int, Callable[[Message], Message | None]]) -> None:
        TaskIdentity.run_id, TaskIdentity.task_id, TaskIdentity.node_id = 1, 1, 1  # as the SuperLink tells a process
        self.nodes = nodes
        self.waiting: dict[str, Message] = {}
        self.sent = 0
        self.trouble: list[Exception] = []
        """Raised by the next calls, one each."""

    def get_nodes(self) -> Iterable[Any]:
        if self.trouble:
            raise self.trouble.pop(0)
        return [SimpleNamespace(node_id=node, public_key=f"key of {node}".encode()) for node in self.nodes]

    def push_messages(self, messages: Iterable[Message]) -> list[str]:
        numbers = []
        for message in messages:
            self.sent += 1
            number = hashlib.sha256(str(self.sent).encode()).hexdigest()
            message.metadata.__dict__["_message_id"] = number
            self.waiting[number] = message
            numbers.append(number)
        return numbers

    def pull_messages(self, numbers: Iterable[str]) -> list[Message]:
        asked = [self.waiting.pop(number) for number in numbers if number in self.waiting]
        replies = [self.nodes[message.metadata.dst_node_id](message) for message in asked]
        return [reply for reply in replies if reply is not None]


def failing(reason: str) -> Answering:
    """A node that answers with an error of its own words."""
    return lambda message: Message(Error(0, reason), reply_to=message)
