"""The algorithm's server, watched while it speaks: what it must not do is told apart from what the network does."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from fedbandits.contract.arrays import Array, IntArray
from fedbandits.contract.messages import Conversation, Message
from fedbandits.contract.server import Server
from fedbandits.contract.wire import Wire

_LARGEST = 1e150
"""Squares of larger numbers are none."""


class SpoiltError(Exception):
    """A conversation that cannot go on: the server raised, or knows or says what is no number.

    Something it was told has led to it, or it is a mistake in the algorithm.
    """


class Watched(Server):
    """`server`, whose conversations raise nothing but `SpoiltError`: where it raises anything itself, and where a
    letter or, before each letter and at the end, its state holds what is not finite or beyond 10^150.

    A state that was not finite before, such as an alarm that never rings, may stay so. In letters only what adds up has
    to be finite; nothing may be no number at all.
    """

    def __init__(self, server: Server, wire: Wire) -> None:
        self._server = server
        self._wire = wire
        self._unsound = frozenset(name for name, array in server.state().items() if not _is_sound(array))

    def converse(self, callers: IntArray) -> Conversation:
        """See `Server`."""
        try:
            conversation = self._server.converse(callers)
            request = next(conversation)
            while True:
                self._check_state()
                self._check_letter(request)
                reply = yield request
                request = conversation.send(reply)
        except StopIteration:
            self._check_state()
        except SpoiltError:
            raise
        except Exception as error:
            raise SpoiltError(f"the server raised {type(error).__name__}: {error}") from error

    def _check_state(self) -> None:
        for name, array in self._server.state().items():
            if name not in self._unsound and not _is_sound(array):
                raise SpoiltError(f"the server's {name} would hold {_worst(array)}")

    def _check_letter(self, request: Message) -> None:
        declared = self._wire.declared(request.kind, "down")
        for name, array in request.arrays.items():
            adds = name in declared and declared[name].adds is not None
            if (adds and not _is_sound(array)) or (array.dtype.kind == "f" and np.isnan(array).any()):
                raise SpoiltError(f"the server would say {_worst(array)} in {name!r} of {request.kind!r}")


def largest(arrays: Mapping[str, Array]) -> float:
    """The largest size of any number."""
    sizes = [float(np.abs(array.astype(np.float64)).max(initial=0.0)) for array in arrays.values()]
    return max(sizes, default=0.0)


def _is_sound(array: Array) -> bool:
    return array.dtype.kind != "f" or bool((np.abs(array) <= _LARGEST).all())


def _worst(array: Array) -> str:
    return "what is no number" if np.isnan(array).any() else f"numbers of size {np.abs(array).max():g}"
