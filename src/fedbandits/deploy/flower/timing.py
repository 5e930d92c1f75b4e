"""Flower's waiting times, shortened: version 1.41 has no settings for them.

Nothing here changes what Flower does, only how long it sleeps in between.
"""

from __future__ import annotations

import time
from types import SimpleNamespace
from typing import Any, NoReturn

from flwr.common.constant import HEARTBEAT_MIN_INTERVAL
from flwr.supercore import heartbeat
from flwr.supercore.exit import flwr_exit
from flwr.supercore.inflatable import inflatable_utils
from flwr.supernode import fleet_http_connection, start_client_internal

_UPLOAD_SECONDS, _LONGEST_BACKOFF = 10.0, 1.0
"""How long the other side may take to upload a message, and how long to wait at most before looking for it again."""
_REFUSED = "[code: 2004]"
"""How Flower says that a node is not let in."""


class NodeRefusedError(Exception):
    """The SuperLink does not let the node in: its key is not registered, or it is still taken for online."""


def hasten_objects(seconds: float) -> None:
    """Look again after `seconds` for parts of a message that the other side is still uploading (Flower: 1 s), and give
    the message up if they do not come (Flower: after two hours, in which a node does nothing else).
    """
    shorter = {"initial_backoff": seconds, "backoff_cap": _LONGEST_BACKOFF, "max_time": _UPLOAD_SECONDS}
    for pull in (inflatable_utils.pull_objects, inflatable_utils.pull_and_inflate_object_from_tree):
        pull.__kwdefaults__ = {**(pull.__kwdefaults__ or {}), **shorter}


def hasten_node(seconds: float) -> None:
    """Let a SuperNode sleep at most `seconds` between two looks for messages (Flower: 3 s) or replies (0.5 s)."""

    def sleep(wanted: float) -> None:
        time.sleep(min(wanted, seconds))

    shortened = SimpleNamespace(**{name: getattr(time, name) for name in dir(time) if not name.startswith("_")})
    shortened.sleep = sleep
    vars(start_client_internal)["time"] = shortened


def hasten_return() -> None:
    """Let a node that was killed come back sooner (Flower: after 60 s), and tell when it is too soon.

    A SuperLink refuses a node that it takes for online, which it does until two heartbeats were missed. Heartbeats are
    sent as often as it accepts them, and a refusal raises `NodeRefusedError` instead of ending the process.
    """
    for module in (heartbeat, fleet_http_connection):
        vars(module)["HEARTBEAT_DEFAULT_INTERVAL"] = HEARTBEAT_MIN_INTERVAL

    def leave(code: int, message: str | None = None, *rest: Any, **others: Any) -> NoReturn:
        if message is not None and _REFUSED in message:
            raise NodeRefusedError(message)
        flwr_exit(code, message, *rest, **others)

    vars(fleet_http_connection)["flwr_exit"] = leave
