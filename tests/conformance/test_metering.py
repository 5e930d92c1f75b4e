"""The ledger's bytes are the bytes of the serialised messages; with communication off nothing is counted."""

from __future__ import annotations

import numpy as np
import pytest

from conformance.subjects import (
    CLIENTS,
    HORIZON,
    NAMES,
    SILENT,
    STAR,
    home,
    network_of,
    problem_of,
    same,
    talkative,
    talks,
)
from conformance.worlds import Together, recorded
from fedbandits.contract.wire import Wire
from fedbandits.simulation.loop import simulate
from fedbandits.transport.carriers import hold


@pytest.mark.parametrize("packed", [False, True], ids=["plain", "packed"])
@pytest.mark.parametrize("name", STAR)
def test_ledger_counts_the_bytes_of_the_serialised_messages(name, packed):
    """Every message that crossed is encoded, agent by agent, and its length and numbers are counted here."""
    expected = np.zeros((2, 4), dtype=np.int64)
    for event in recorded(talkative(name), home(name), HORIZON, wire=Wire(packed=packed)):
        expected[0, 1] += len(event.callers)
        wire = event.side.wire
        for direction, message in event.crossed:
            row = expected[("up", "down").index(direction)]
            for agent in range(len(message.who)):
                if not message.arrays:
                    row[1] += 1
                    continue
                data = wire.encode(message, agent, direction)
                row += (1, 0, numbers_in(message, wire, direction), len(data))
        np.testing.assert_array_equal(event.side.ledger.counts[:2], expected)
    assert expected[:, 0].all()


def numbers_in(message, wire, direction):
    symmetric = {
        field.name
        for utterance in wire.utterances
        if (utterance.kind, utterance.direction) == (message.kind, direction)
        for field in utterance.fields
        if field.symmetric and wire.packed
    }
    total = 0
    for name, array in message.arrays.items():
        one = array[0]
        total += len(one) * (len(one) + 1) // 2 if name in symmetric else one.size
    return total


@pytest.mark.parametrize("name", [name for name in NAMES if name in SILENT or not talks(name)])
def test_with_communication_off_nothing_is_counted(name):
    trace = simulate(talkative(name, **SILENT.get(name, {})), home(name), HORIZON, network=network_of(name))
    assert not trace.counts.any()
    assert not trace.syncs.any()


@pytest.mark.parametrize("name", STAR)
def test_a_server_copes_with_silence(name):
    """Nobody can be reached: the conversation ends, no message is counted, no statistics have changed."""
    side = Together(talkative(name), problem_of(name), np.random.SeedSequence(1), Wire())
    side.carrier.reachable = np.zeros(CLIENTS, dtype=bool)
    before = side.server.state()
    hold(side.server, np.array([0, 2]), side.carrier)
    assert side.ledger.up.messages == side.ledger.down.messages == side.ledger.down.signals == 0
    for key, array in side.server.state().items():
        if key.endswith(("gram", "moment")):
            np.testing.assert_array_equal(array, before[key])


@pytest.mark.parametrize("name", STAR)
def test_only_the_reached_take_part(name):
    """Half of the agents come and go: no conversation touches those who are away, though others are told meanwhile."""
    world = home(name, stragglers=0.5, presence=0.3).world(HORIZON, np.random.SeedSequence(4))
    side = Together(talkative(name), world.problem, np.random.SeedSequence(1), Wire())
    touched = 0
    for step in range(HORIZON):
        turn = world.turn(step)
        picks = side.choose(turn.who, turn.arms)
        side.learn(turn.who, turn.arms, picks, world.pay(step, picks).rewards)
        before = side.states()
        side.talk(turn, step)
        changed = [not same(new, old) for new, old in zip(side.states(), before, strict=True)]
        assert not (changed & ~turn.reachable).any()
        touched += sum(changed)
    assert touched > 10
