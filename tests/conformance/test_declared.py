"""What crosses the wire is what the catalogue declares, and raw observations only where it says so.

Not claimed: that nothing can be inferred. Statistics of a single observation are x x^T and y x, of rank one, from
which x follows up to its sign and |y| from the length of y x; hiding that is the task of the private algorithms.
"""

from __future__ import annotations

import numpy as np
import pytest

from conformance.subjects import HORIZON, NAMES, STAR, TALKING, about, home, problem_of, talkative
from conformance.worlds import bound, recorded
from fedbandits.contract.messages import Message
from fedbandits.contract.wire import Wire, WireError


@pytest.mark.parametrize("name", NAMES)
def test_declarations_are_sound(name):
    """Kinds are unique for each direction, fields for each kind; who talks to nobody declares nothing."""
    entry = about(name)
    spoken = [(item.kind, item.direction) for item in entry.says]
    assert len(set(spoken)) == len(spoken)
    for utterance in entry.says:
        names = [field.name for field in utterance.fields]
        assert len(set(names)) == len(names)
        for field in utterance.fields:
            assert not field.symmetric or (len(field.shape) == 2 and field.shape[0] == field.shape[1])
    directions = {item.direction for item in entry.says}
    allowed = {"alone": set(), "star": {"up", "down"}, "graph": {"peer"}}[entry.topology]
    assert directions == allowed


@pytest.mark.parametrize("name", STAR)
def test_what_is_sent_is_what_was_declared(name):
    """Kinds, fields and shapes, both ways; what is declared symmetric is so to the last bit."""
    declared = {(item.kind, item.direction): item for item in about(name).says}
    sent = set()
    for event in recorded(talkative(name), home(name), HORIZON):
        for direction, message in event.crossed:
            utterance = declared[message.kind, direction]
            sent.add((message.kind, direction))
            fields = {field.name: field for field in utterance.fields}
            needed = {field.name for field in utterance.fields if not field.optional}
            assert needed <= message.arrays.keys() <= fields.keys()
            for key, array in message.arrays.items():
                assert array.shape[1:] == tuple(event.side.wire.sizes.get(s, s) for s in fields[key].shape)
                if fields[key].symmetric:
                    np.testing.assert_array_equal(array, array.swapaxes(1, 2))
    assert sent <= declared.keys()
    assert {direction for _, direction in sent} == {"up", "down"}


@pytest.mark.parametrize("name", STAR)
def test_no_raw_observation_crosses_unless_declared(name):
    """No number or row on the wire is a reward, an arm, or an arm's coordinate, unless its field is declared raw."""
    declared = {(item.kind, item.direction): {f.name: f for f in item.fields} for item in about(name).says}
    seen, crossed = [], []
    for event in recorded(talkative(name), home(name), HORIZON, marked=True):
        x = event.arms[np.arange(len(event.who)), event.picks]
        seen += [x.ravel(), event.rewards]
        for direction, message in event.crossed:
            fields = declared[message.kind, direction]
            crossed += [array.ravel() for key, array in message.arrays.items() if not fields[key].raw]
    raw, sent = np.concatenate(seen), np.concatenate(crossed)
    assert len(sent) > 100
    assert not np.isin(sent, raw).any()


@pytest.mark.parametrize("name", TALKING)
def test_undeclared_messages_are_refused(name):
    algorithm, problem = talkative(name), problem_of(name)
    wire = bound(Wire(), algorithm, problem)
    who = np.arange(2)
    for utterance in about(name).says:
        direction = utterance.direction
        arrays = {field.name: np.zeros((2, *(wire.sizes.get(s, s) for s in field.shape))) for field in utterance.fields}
        wire.check(Message(utterance.kind, who, arrays), direction)
        with pytest.raises(WireError, match="never declared"):
            wire.check(Message(utterance.kind + "-x", who, arrays), direction)
        with pytest.raises(WireError, match="surplus"):
            wire.check(Message(utterance.kind, who, arrays | {"surplus": np.zeros(2)}), direction)
        for field in utterance.fields:
            grown = arrays | {field.name: arrays[field.name][..., None]}
            with pytest.raises(WireError, match=field.name):
                wire.check(Message(utterance.kind, who, grown), direction)
            if not field.optional:
                lacking = {key: value for key, value in arrays.items() if key != field.name}
                with pytest.raises(WireError, match=field.name):
                    wire.check(Message(utterance.kind, who, lacking), direction)


@pytest.mark.parametrize("name", STAR)
def test_a_kind_nobody_knows_is_refused_by_agents_too(name):
    agents = talkative(name).agents(problem_of(name), 3, None)
    before = agents.state()
    with pytest.raises(WireError, match="nonsense"):
        agents.answer(Message("nonsense", np.arange(3)))
    for key, array in agents.state().items():
        np.testing.assert_array_equal(array, before[key])
