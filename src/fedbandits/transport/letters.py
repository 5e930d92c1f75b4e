"""What relays have in common: what may fly together in one inbox, and how letters are ordered."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from fedbandits.contract.arrays import Array, IntArray, State
from fedbandits.contract.messages import Message
from fedbandits.contract.wire import Wire, WireError
from fedbandits.linalg.jit import jit


def check_alike(old: Message, new: Message, wire: Wire) -> None:
    """Raise `WireError` unless the messages have the same kind and fields, so that one inbox can hold both."""
    if not alike(old, new, wire):
        raise WireError(
            f"peers say {_form(new, wire)} while {_form(old, wire)} is under way: on a graph messages of one kind must "
            "have the same fields every time; declare another kind for the others"
        )


def alike(one: Message, other: Message, wire: Wire) -> bool:
    """Whether messages have the same kind and fields, and those the same types and shapes, but for ragged sizes."""
    if one.kind != other.kind or one.arrays.keys() != other.arrays.keys():
        return False
    if one.lengths:
        return _form(one, wire) == _form(other, wire)
    return all(
        array.dtype == other.arrays[name].dtype and array.shape[1:] == other.arrays[name].shape[1:]
        for name, array in one.arrays.items()
    )


def _form(message: Message, wire: Wire) -> str:
    """The kind, fields, types and shapes of messages, in words; sizes that differ between agents by their names."""
    declared = wire.declared(message.kind, "peer")
    fields = []
    for name, array in message.arrays.items():
        shape: list[int | str] = list(array.shape[1:])
        for place, size in declared[name].ragged:
            shape[place] = size
        fields.append(f"{name} {array.dtype}[{', '.join(map(str, shape))}]")
    return f"{message.kind!r} ({', '.join(sorted(fields))})"


def joined(messages: Sequence[Message], wire: Wire) -> Message:
    """All rows of messages that are alike, as one message with arrays of its own."""
    first = messages[0]
    if first.lengths:
        most = {name: max(int(one.lengths[name].max(initial=0)) for one in messages) for name in first.lengths}
        messages = [resized(one, most, wire) for one in messages]
    arrays = {name: np.concatenate([one.arrays[name] for one in messages]) for name in first.arrays}
    lengths = {name: np.concatenate([one.lengths[name] for one in messages]) for name in first.lengths}
    return Message(first.kind, np.concatenate([one.who for one in messages]), arrays, lengths)


def room_of(message: Message, wire: Wire) -> dict[str, int]:
    """To how much of every size that differs from agent to agent a message is padded that was `resized`."""
    declared = wire.declared(message.kind, "peer")
    return {
        size: array.shape[1 + place] for name, array in message.arrays.items() for place, size in declared[name].ragged
    }


def resized(message: Message, room: Mapping[str, int], wire: Wire) -> Message:
    """The same message with this much room for sizes that differ from agent to agent; nobody may have more."""
    declared = wire.declared(message.kind, "peer")
    arrays = {}
    for name, array in message.arrays.items():
        shape = list(array.shape)
        for place, size in declared[name].ragged:
            shape[1 + place] = room[size]
        if tuple(shape) == array.shape:
            arrays[name] = array
            continue
        arrays[name] = np.zeros(shape, array.dtype)
        held = tuple(slice(min(pair)) for pair in zip(shape, array.shape, strict=True))
        arrays[name][held] = array[held]
    return Message(message.kind, message.who, arrays, message.lengths)


def taken(state: State, name: str) -> Array:
    """The array `name`, which is then no longer in `state`; raises where a snapshot lacks it."""
    if name not in state:
        raise ValueError(f"the snapshot lacks {name}")
    return state.pop(name)


def taken_all(state: State, prefix: str) -> dict[str, Array]:
    """The arrays whose names begin with `prefix`, which are then no longer in `state`, by the rest of their names."""
    names = [name for name in state if name.startswith(prefix)]
    return {name.removeprefix(prefix): state.pop(name) for name in names}


def sealed(array: IntArray) -> IntArray:
    """`array`, which nobody may write to from now on."""
    array.flags.writeable = False
    return array


def starts_of(keys: IntArray, size: int) -> IntArray:
    """(size + 1,) where the entries of each key 0..size-1 begin, once they are in order."""
    return np.concatenate([[0], np.cumsum(np.bincount(keys, minlength=size))])


@jit
def in_order(keys: IntArray, size: int) -> IntArray:
    """The stable order of `keys`, whole numbers in 0..size-1: a sort that counts, linear in their number."""
    starts = np.zeros(size + 1, np.int64)
    for key in keys:
        starts[key + 1] += 1
    for key in range(size):
        starts[key + 1] += starts[key]
    order = np.empty(len(keys), np.int64)
    for i in range(len(keys)):
        order[starts[keys[i]]] = i
        starts[keys[i]] += 1
    return order
