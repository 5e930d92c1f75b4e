"""Two worlds agree: one population of n in process, and n populations of one reached by bytes alone.

Tolerance: none. Choices, callers, states and ledgers agree to the last bit.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from fedbandits.contract.ledger import UNITS, Ledger
from fedbandits.contract.wire import Wire
from fedbandits.testing.attendance import Attendance
from fedbandits.testing.breach import difference, require
from fedbandits.testing.subject import Subject
from fedbandits.testing.worlds import Step


def two_worlds(subject: Subject) -> None:
    """Everybody awake, one agent at a time, and agents that come and go; symmetric matrices whole and as triangles."""
    trials: list[tuple[Attendance, bool, int]] = [
        ("as it is", False, subject.horizon),
        ("one at a time", True, 2 * subject.horizon),
        ("come and go", True, subject.horizon),
    ]
    for attendance, packed, steps in trials:
        _agree(subject.two_worlds(attendance, packed=packed, steps=steps), attendance)


def two_worlds_in_trouble(subject: Subject) -> None:
    """On a graph: links that fail, messages that are late or corrupted, and agents that are not there."""
    if subject.network is None or subject.topology != "graph":
        return
    raw = [item for utterance in subject.algorithm.about.says for item in utterance.fields if item.raw]
    corruption = 0.1 if raw and not any(item.ragged for item in raw) else 0.0  # lists cannot be corrupted
    network = replace(subject.network, loss=0.2, delay=1.0, delay_max=3, tampering=corruption, contamination=corruption)
    trials: tuple[Attendance, ...] = ("as it is", "come and go")
    for attendance in trials:
        _agree(subject.two_worlds(attendance, network=network), f"in trouble, {attendance}")


def _agree(steps: Iterator[Step], trial: str) -> None:
    for step in steps:
        together, apart = step.together, step.apart
        where = f"step {step.at} ({trial})"
        picks, alone = step.picks, step.picks_apart
        for agent, mine, other in zip(step.turn.who, picks, alone, strict=True):
            require(mine == other, f"{where}: agent {agent} takes arm {mine} in the population and {other} alone")
        require(
            np.array_equal(step.callers, step.callers_apart),
            f"{where}: in the population {step.callers.tolist()} call, alone {step.callers_apart.tolist()}",
        )
        for agent, (joint, single) in enumerate(zip(together.states(), apart.states(), strict=True)):
            found = difference(joint, single)
            require(not found, f"{where}: agent {agent} in the population and alone: {found}")
        if together.server is not None and apart.server is not None:
            found = difference(together.server.state(), apart.server.state())
            require(not found, f"{where}: the servers of the two worlds: {found}")
        found = difference(together.ledger.state(), apart.ledger.state())
        require(not found, f"{where}: the ledgers of the two worlds: {found}")
        metered = sum(flow.bytes for flow in (apart.ledger.up, apart.ledger.down, apart.ledger.peer))
        require(apart.bytes_seen == metered, f"{where}: {apart.bytes_seen} bytes crossed, the ledger has {metered}")


def metering(subject: Subject) -> None:
    """The ledger's bytes are the bytes of the serialised messages, with symmetric matrices whole and as triangles."""
    for packed in (False, True):
        _metered(subject, Wire(packed=packed).speaking(subject.wire.utterances or (), subject.wire.sizes))
    plain, packed_run = subject.finished, subject.simulation(wire=Wire(packed=True))
    packed_run.run()
    found = difference(plain.agents.state(), packed_run.agents.state())
    require(not found, f"packing symmetric matrices changes the run: {found}")
    packs = any(item.symmetric for utterance in subject.algorithm.about.says for item in utterance.fields)
    for unit in ("messages", "scalars", "bytes"):
        whole, lower = (int(run.ledger.counts[:, UNITS.index(unit)].sum()) for run in (plain, packed_run))
        fewer = packs and unit != "messages" and whole > 0
        require(lower < whole if fewer else lower == whole, f"packed, a run has {lower} {unit}, else {whole}")


def _metered(subject: Subject, wire: Wire) -> None:
    """Every message to and from the server is encoded, agent by agent, and held against what the ledger counts."""
    expected, ledger = np.zeros((2, len(UNITS)), dtype=np.int64), Ledger()
    for event in subject.events:
        for direction, message in event.crossed:
            if direction == "peer":
                continue  # counted link by link, in both worlds
            ledger.record(message, direction, wire)
            row = expected[("up", "down").index(direction)]
            for agent in range(len(message.who)):
                if not message.arrays:
                    row[1] += 1
                    continue
                data = wire.encode(message, agent, direction)
                row += (1, 0, sum(_scalars(wire, data)), len(data))
    require(
        np.array_equal(ledger.counts[:2], expected),
        f"the ledger counts {ledger.counts[:2].tolist()}, serialised it is {expected.tolist()}",
    )
    if not wire.packed:
        counted = subject.events[-1].side.ledger.counts[:2].copy()
        counted[0, 1] -= sum(len(event.callers) for event in subject.events) if subject.topology == "star" else 0
        require(
            np.array_equal(counted, expected),
            f"the run's ledger counts {counted.tolist()}, what crossed is {expected.tolist()}",
        )


def _scalars(wire: Wire, data: bytes) -> Iterator[int]:
    """How many numbers each field of an encoded message holds on the wire."""
    kind, arrays = Wire.decode(data)
    symmetric = {
        item.name
        for utterance in wire.utterances or ()
        for item in utterance.fields
        if utterance.kind == kind and item.symmetric and wire.packed
    }
    for name, array in arrays.items():
        yield len(array) * (len(array) + 1) // 2 if name in symmetric else array.size
