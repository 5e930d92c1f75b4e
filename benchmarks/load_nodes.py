"""Many nodes in one process, each as Flower's own speaks to a SuperLink, and a federation of them that is measured."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from cryptography.hazmat.primitives.serialization import load_ssh_private_key
from flwr.app import Message
from flwr.supercore.inflatable.inflatable_object import (
    get_all_nested_objects,
    get_object_tree,
    iterate_object_tree,
    no_object_id_recompute,
)
from flwr.supercore.inflatable.inflatable_utils import (
    inflate_object_from_contents,
    pull_objects,
    push_object_contents_from_iterable,
)
from flwr.supernode import fleet_http_connection

import fedbandits as fb
from fedbandits.deploy.embedded.agent import Agent
from fedbandits.deploy.flower.conversation.carrier import Patience
from fedbandits.deploy.flower.conversation.desk import Desk
from fedbandits.deploy.flower.machine.launch import LOOPBACK, Federation
from fedbandits.deploy.flower.messages import RING, answering, presenting, read_letter
from fedbandits.deploy.flower.timing import hasten_objects
from fedbandits.deploy.settings import Settings

DIM = 10
GATHER_SECONDS, TALK_SECONDS = 300.0, 300.0


def _refused(code: int, message: str | None = None, *_: object) -> None:
    """A node that cannot connect ends its process, which a supervisor starts again; here all nodes are in one."""
    raise ConnectionError(message)


fleet_http_connection.flwr_exit = _refused


class LightNode(threading.Thread):
    """One node: pulls messages, lets an agent answer, pushes the answers."""

    def __init__(self, address: str, authority: bytes, key: Path, agent: Agent, poll: float) -> None:
        super().__init__(daemon=True)
        private = load_ssh_private_key(key.read_bytes(), None)
        self._connecting = partial(
            fleet_http_connection.http_request_response,
            address,
            insecure=False,
            root_certificates=authority,
            authentication_keys=(private, private.public_key()),
        )
        self._desk = Desk(agent)
        self._poll = poll
        self.leaving = threading.Event()

    def run(self) -> None:
        while not self.leaving.is_set():
            try:
                self._attend()
            except Exception:  # a SuperLink that is overrun closes connections
                self.leaving.wait(1.0)

    def _attend(self) -> None:
        with self._connecting() as (_, receive, send, _, _, pull, push, confirm):
            while not self.leaving.is_set():
                found = receive()
                if found is None:
                    self.leaving.wait(self._poll)
                    continue
                self._answer(*found, send, pull, push, confirm)

    def _answer(self, message: Any, tree: Any, send: Any, pull: Any, push: Any, confirm: Any) -> None:
        number, run = message.metadata.message_id, message.metadata.run_id
        contents = pull_objects([part.object_id for part in iterate_object_tree(tree)], partial(pull, run))
        confirm(run, number)
        asked = inflate_object_from_contents(number, contents)
        asked.metadata.__dict__["_message_id"] = number
        reply = self._reply(asked)
        with no_object_id_recompute():
            reply.metadata.__dict__["_message_id"] = reply.object_id
            wanted, session = send(reply, get_object_tree(reply), 0.0)
            parts = get_all_nested_objects(reply)
            push_object_contents_from_iterable(
                ((name, parts[name].deflate()) for name in parts if name in wanted), partial(push, run, session)
            )

    def _reply(self, asked: Any) -> Message:
        if asked.metadata.message_type == RING:
            return presenting(asked, self._desk.identity, self._desk.fingerprint, self._desk.ring())
        return answering(asked, self._desk.answer(read_letter(asked)))


def federation_under_load(where: Path, nodes: int, poll: float, synchronisations: int) -> dict[str, Any]:
    """What a federation of so many nodes takes; `failed` says what it did not manage."""
    settings = Settings(algorithm=fb.algorithms.DisLinUCB(threshold=0.01), dim=DIM, agents=nodes, horizon=100_000)
    patience = Patience(ring=20.0 + nodes / 10, answer=30.0 + nodes / 5, repeat=30.0 + nodes / 5)
    federation = Federation(where, settings, interval=0.05, patience=patience)
    hasten_objects(0.1)
    logging.getLogger("flwr").setLevel(logging.CRITICAL)  # that a connection was tried again is not news here
    crowd: list[LightNode] = []
    try:
        federation.start_superlink()
        keys = [federation.key_path(identity) for identity in range(nodes)]
        federation.register(*(key.with_suffix(".pub") for key in keys))
        authority = (federation.directory / "tls" / "ca.crt").read_bytes()
        agents = [federation.open_agent(identity, durable=False, warm=False) for identity in range(nodes)]
        for key, agent in zip(keys, agents, strict=True):
            crowd.append(LightNode(f"{LOOPBACK}:{federation.port}", authority, key, agent, poll))
            crowd[-1].start()
        federation.start_server()
        return _measured(federation, agents, synchronisations)
    finally:
        for node in crowd:
            node.leaving.set()
        for node in crowd:
            node.join(5.0)
        federation.stop()


def _measured(federation: Federation, agents: list[Agent], synchronisations: int) -> dict[str, Any]:
    book, nodes = federation.book, len(agents)
    began = time.monotonic()
    if not _until(lambda: book.fact("present") == nodes, GATHER_SECONDS):
        return {"nodes": nodes, "failed": f"{book.fact('present'):.0f} were there within {GATHER_SECONDS:g} s"}
    gathered = time.monotonic() - began
    found = {"nodes": nodes, "gathered_seconds": gathered}
    found["ring_seconds"] = float(np.median(_seconds_of_rings(federation, 5)))
    pid = _superlink(federation.directory)
    took, took_part = [], []
    cpu, since = _cpu_seconds(pid), time.monotonic()
    rng = np.random.default_rng(0)
    for _ in range(synchronisations):
        before, seconds = book.durations.outcomes()["completed"], book.durations.seconds
        letters = [agent.status().letters for agent in agents]
        for agent in agents:
            _live(agent, rng, 10)
        if not _until(lambda before=before: book.durations.outcomes()["completed"] > before, TALK_SECONDS):
            return found | {"failed": f"no synchronisation within {TALK_SECONDS:g} s"}
        took.append(book.durations.seconds - seconds)
        told = [agent.status().letters > known for agent, known in zip(agents, letters, strict=True)]
        took_part.append(float(np.mean(told)))
    return found | {
        "synchronisation_seconds": float(np.median(took)),
        "took_part": float(np.mean(took_part)),
        "superlink_bytes": _memory(pid),
        "superlink_cores": (_cpu_seconds(pid) - cpu) / (time.monotonic() - since),
        "resent": book.durations.resent,
    }


def _live(agent: Agent, rng: np.random.Generator, decisions: int) -> None:
    for _ in range(decisions):
        arms = rng.standard_normal((5, DIM))
        decision = agent.decide(arms / np.linalg.norm(arms, axis=1, keepdims=True))
        agent.reward(decision.id, float(rng.standard_normal()))


def _seconds_of_rings(federation: Federation, count: int) -> list[float]:
    """From the end of one ring to the end of the next; the server pauses for 0.05 s at most."""
    moments: list[float] = []
    until = time.monotonic() + GATHER_SECONDS
    while len(moments) <= count and time.monotonic() < until:
        moment = federation.book.fact("rang_at")
        if not moments or moment != moments[-1]:
            moments.append(moment)
        time.sleep(0.02)
    return [later - earlier for earlier, later in pairwise(moments)]


def _until(reached: Callable[[], bool], seconds: float) -> bool:
    until = time.monotonic() + seconds
    while not reached():
        if time.monotonic() > until:
            return False
        time.sleep(0.05)
    return True


def _superlink(directory: Path) -> int:
    """The process that everything goes through, and not those that it has started."""
    found = []
    for entry in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):
            words = entry.read_bytes()
            if b"flower-superlink" in words and str(directory).encode() in words:
                found.append(int(entry.parent.name))
    return min(found)


def _memory(pid: int) -> int:
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return 1024 * int(line.split()[1])
    return 0


def _cpu_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / 100.0
