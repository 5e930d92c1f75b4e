"""What relays have in common: how peers are asked to speak, what may fly together, and how letters are ordered."""

from __future__ import annotations

import numpy as np

from fedbandits.contract.arrays import Array, IntArray, State, check_who
from fedbandits.contract.messages import Message
from fedbandits.contract.population import Peers
from fedbandits.contract.wire import Wire, WireError
from fedbandits.linalg.jit import jit


def spoken(peers: Peers, who: IntArray, n: int, wire: Wire) -> Message | None:
    """What the agents in `who` say, checked, in the order of their identities, and copied: it outlives the round."""
    said = peers.say(who)
    if said is None or len(said.who) == 0:
        return None
    wire.check(said, "peer")
    check_who(said.who, n)
    order = np.argsort(said.who)
    return Message(said.kind, said.who[order].astype(np.int64), {name: a[order] for name, a in said.arrays.items()})


def check_alike(old: Message, new: Message) -> None:
    """Raise `WireError` unless the messages have the same kind and fields, so that one inbox can hold both."""
    if form_of(old) != form_of(new):
        raise WireError(
            f"peers say {form_of(new)} while {form_of(old)} is under way: messages on a graph must be of one kind, "
            "with the same fields every time"
        )


def form_of(message: Message) -> str:
    """The kind, fields, types and shapes of messages, in words."""
    fields = sorted(f"{name} {array.dtype}{list(array.shape[1:])}" for name, array in message.arrays.items())
    return f"{message.kind!r} ({', '.join(fields)})"


def taken(state: State, name: str) -> Array:
    """The array `name`, which is then no longer in `state`; raises where a snapshot lacks it."""
    if name not in state:
        raise ValueError(f"the snapshot lacks {name}")
    return state.pop(name)


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
