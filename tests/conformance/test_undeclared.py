"""What an algorithm declares is all that its wire takes."""

from __future__ import annotations

import numpy as np
import pytest

from conformance.subjects import TALKING, about, subject
from fedbandits.contract.messages import Message
from fedbandits.contract.wire import WireError


def _length(size, wire):
    """Of a size that no declaration tells, any will do."""
    return size if isinstance(size, int) else wire.sizes.get(size, 2)


@pytest.mark.parametrize("name", TALKING)
def test_undeclared_messages_are_refused(name):
    wire = subject(name).wire
    who = np.arange(2)
    for utterance in about(name).says:
        direction = utterance.direction
        arrays = {
            field.name: np.zeros((2, *(_length(size, wire) for size in field.shape)), field.dtype)
            for field in utterance.fields
        }
        lengths = {size: np.full(2, 2) for field in utterance.fields for _, size in field.ragged}
        wire.check(Message(utterance.kind, who, arrays, lengths), direction)
        with pytest.raises(WireError, match="never declared"):
            wire.check(Message(utterance.kind + "-x", who, arrays, lengths), direction)
        with pytest.raises(WireError, match="surplus"):
            wire.check(Message(utterance.kind, who, arrays | {"surplus": np.zeros(2)}, lengths), direction)
        for field in utterance.fields:
            grown = arrays | {field.name: arrays[field.name][..., None]}
            with pytest.raises(WireError, match=field.name):
                wire.check(Message(utterance.kind, who, grown, lengths), direction)
            mistyped = arrays | {field.name: arrays[field.name].astype("f4" if field.dtype == "f8" else "f8")}
            with pytest.raises(WireError, match="of type"):
                wire.check(Message(utterance.kind, who, mistyped, lengths), direction)
            if not field.optional:
                lacking = {key: value for key, value in arrays.items() if key != field.name}
                with pytest.raises(WireError, match=field.name):
                    wire.check(Message(utterance.kind, who, lacking, lengths), direction)
