"""Ports of this machine's loopback."""

from __future__ import annotations

import socket
from collections.abc import Sequence

LOOPBACK = "127.0.0.1"


def free_ports(count: int) -> Sequence[int]:
    """Ports that nobody listens on at the moment."""
    sockets = [socket.socket() for _ in range(count)]
    try:
        for each in sockets:
            each.bind((LOOPBACK, 0))
        return [int(each.getsockname()[1]) for each in sockets]
    finally:
        for each in sockets:
            each.close()


def listens(port: int, host: str = LOOPBACK) -> bool:
    """Whether anybody accepts connections on a port."""
    try:
        with socket.create_connection((host, port), timeout=1.0):
            return True
    except OSError:
        return False
