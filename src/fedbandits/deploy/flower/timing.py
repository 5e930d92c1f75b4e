"""Flower's waiting times, shortened: version 1.41 has no settings for them.

Nothing here changes what Flower does, only how long it sleeps in between.
"""

from __future__ import annotations

import logging
import threading
import time
from email.utils import parsedate_to_datetime
from types import SimpleNamespace
from typing import Any, NoReturn

import httpx
from flwr.common.constant import HEARTBEAT_MIN_INTERVAL, SYSTEM_TIME_TOLERANCE, TIMESTAMP_TOLERANCE
from flwr.supercore import heartbeat
from flwr.supercore.date import now
from flwr.supercore.exit import flwr_exit
from flwr.supercore.inflatable import inflatable_utils
from flwr.supercore.protobuf.client import ProtobufCall, ProtobufRequestContext
from flwr.supernode import fleet_http_connection, start_client_internal
from flwr.supernode.node_auth_http_interceptor import NodeAuthHttpInterceptor

from fedbandits.deploy.flower.book.clocks import in_words, offset

log = logging.getLogger(__name__)
WRONG_CLOCK = "the clock of this machine"
"""How the reason begins if a node is refused for its clock."""
_LARGEST_LAG = TIMESTAMP_TOLERANCE + SYSTEM_TIME_TOLERANCE - 1

_UPLOAD_SECONDS, _LONGEST_BACKOFF = 10.0, 1.0
"""How long the other side may take to upload a message, and how long to wait at most before looking for it again."""
_FLOWER_LOOKS, _LEISURE_SECONDS = 3.0, 0.5
"""How long Flower sleeps between two looks for messages, and how long a node that was never asked anything does."""
_REFUSED = "[code: 2004]"
"""How Flower says that a node is not let in."""
_ACTIVATE = "ActivateNode"
"""The first thing that a node says."""


class NodeRefusedError(Exception):
    """The SuperLink does not let the node in: its key is not registered, it is still taken for online, or its clock is
    wrong.
    """


def hasten_objects(seconds: float) -> None:
    """Look again after `seconds` for parts of a message that the other side is still uploading (Flower: 1 s), and give
    the message up if they do not come (Flower: after two hours, in which a node does nothing else).
    """
    shorter = {"initial_backoff": seconds, "backoff_cap": _LONGEST_BACKOFF, "max_time": _UPLOAD_SECONDS}
    for pull in (inflatable_utils.pull_objects, inflatable_utils.pull_and_inflate_object_from_tree):
        pull.__kwdefaults__ = {**(pull.__kwdefaults__ or {}), **shorter}


class Pace:
    """How often a node looks for something to do.

    Messages are looked for every `seconds` once there has been one, and at leisure before: nobody asks anything while a
    federation starts, and each look costs node, gate and SuperLink a signature. A task that Flower has made of a
    message is known at once, since Flower then waits for the reply.
    """

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._asked = False
        self._waited_for = threading.Event()

    def sleep(self, wanted: float) -> None:
        """What Flower calls between two looks: for messages (3 s), or for the reply to one (less)."""
        if wanted < _FLOWER_LOOKS:
            self._asked = True
            self._waited_for.set()
        time.sleep(min(wanted, self._seconds if self._asked else max(self._seconds, _LEISURE_SECONDS)))

    def await_task(self) -> None:
        """Return when a reply is waited for, or soon in any case."""
        self._waited_for.wait(_LEISURE_SECONDS)
        self._waited_for.clear()


def hasten_node(pace: Pace) -> None:
    """Let a SuperNode sleep as `pace` says between two looks for messages (Flower: 3 s) or replies (0.5 s)."""
    shortened = SimpleNamespace(**{name: getattr(time, name) for name in dir(time) if not name.startswith("_")})
    shortened.sleep = pace.sleep
    vars(start_client_internal)["time"] = shortened


def hasten_return() -> None:
    """Let a node that was killed come back sooner (Flower: after 60 s), and tell when it is too soon.

    A SuperLink refuses a node that it takes for online, which it does until two heartbeats were missed. Heartbeats are
    sent as often as it accepts them, and a refusal raises `NodeRefusedError` instead of ending the process.
    """
    for module in (heartbeat, fleet_http_connection):
        vars(module)["HEARTBEAT_DEFAULT_INTERVAL"] = HEARTBEAT_MIN_INTERVAL

    def leave(code: int, message: str | None = None, *rest: Any, **others: Any) -> NoReturn:
        if message is not None and (_REFUSED in message or WRONG_CLOCK in message):
            raise NodeRefusedError(message)
        flwr_exit(code, message, *rest, **others)

    vars(fleet_http_connection)["flwr_exit"] = leave


def tell_wrong_clock() -> None:
    """Say it if the SuperLink refuses this node because of its clock.

    Nodes sign what time it is, and Flower refuses what is more than 5 s ahead or 305 s behind, like a wrong key, and
    without a word about clocks; a node then ends as if it had been told to. What time it is at the SuperLink is in the
    header `Date` of its answers. A node that is just starting keeps trying (`NodeRefusedError`).
    """

    class Watching(NodeAuthHttpInterceptor):
        def intercept(self, context: ProtobufRequestContext, call_next: ProtobufCall) -> httpx.Response:
            before = now().timestamp()
            response = super().intercept(context, call_next)
            if response.status_code == httpx.codes.UNAUTHORIZED:
                ahead = ahead_of(response.headers.get("date"), before, now().timestamp())
                if ahead is not None and not -_LARGEST_LAG < ahead < SYSTEM_TIME_TOLERANCE - 1:
                    words = f"{WRONG_CLOCK} {in_words(ahead)}, by the SuperLink's, which refuses it: set it"
                    if context.rpc_method.endswith(_ACTIVATE):
                        raise NodeRefusedError(words)
                    log.error("%s", words)
            return response

    vars(fleet_http_connection)["NodeAuthHttpInterceptor"] = Watching


def ahead_of(date: str | None, before: float, after: float) -> float | None:
    """By how many seconds our clock, which went from `before` to `after` meanwhile, is certainly ahead of that of an
    answer that was written at `date`, a header of HTTP; None if that is no date.

    >>> date = "Thu, 01 Jan 1970 00:01:40 GMT"
    >>> ahead_of(date, 100.2, 100.9), ahead_of(date, 110.0, 111.0), ahead_of(date, 40.0, 41.0)
    (0.0, 9.0, -59.0)
    """
    if date is None:
        return None
    try:
        written = parsedate_to_datetime(date).timestamp()
    except ValueError:
        return None
    # it is cut to whole seconds
    return -offset(written, before - 1.0, after) + 0.0
