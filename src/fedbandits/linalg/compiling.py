"""Kernels are compiled when they are first called on a machine, up to a minute in all: whoever waits is told why.

Numba announces what it compiles, and is silent about what it finds in its cache on disk (`numba.core.event`). Where
nobody asks by `telling`, a process says so once: to the logger `fedbandits`, and on standard error if somebody sits
there. Worker processes say nothing, since whoever started them does.
"""

from __future__ import annotations

import logging
import multiprocessing
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from numba.core import event

Told = Callable[[int, float], None]
"""Called with the number of kernels compiled by this process so far, and the seconds this took: at the start and at the
end of each."""

NOTE = "compiling kernels for this machine, once: up to a minute"
PATIENCE_SECONDS = 0.5
"""Compiling that is over sooner is not worth a note."""


@contextmanager
def telling(told: Told) -> Iterator[None]:
    """Tell `told` of everything that is compiled inside, and nobody else."""
    before, _LISTENER.told = _LISTENER.told, told
    try:
        yield
    finally:
        _LISTENER.told = before


def seconds() -> float:
    """How long this process has compiled kernels so far."""
    return _LISTENER.seconds


def once(say: Callable[[str], None]) -> Told:
    """One who is told says `NOTE`, one time, as soon as compiling takes longer than a moment."""
    said = False

    def told(kernels: int, seconds: float) -> None:
        nonlocal said
        if not said and seconds > PATIENCE_SECONDS:
            said = True
            say(NOTE)

    return told


def _say(text: str) -> None:
    logging.getLogger("fedbandits").info(text)
    interactive = sys.stderr is not None and (sys.stderr.isatty() or hasattr(sys, "ps1"))
    if interactive and multiprocessing.parent_process() is None:
        print(f"fedbandits: {text}", file=sys.stderr, flush=True)


class _Listener(event.Listener):
    """Counts and times our kernels. Numba compiles one at a time, and those that another one calls inside of it."""

    def __init__(self) -> None:
        self.told = once(_say)
        self._kernels = 0
        self.seconds = 0.0
        self._since = 0.0
        self._depth = 0

    def on_start(self, event: event.Event) -> None:
        """A kernel is going to be compiled."""
        if _ours(event):
            now = time.perf_counter()
            if not self._depth:
                self._since = now
            self._depth += 1
            self.told(self._kernels, self.seconds + now - self._since)

    def on_end(self, event: event.Event) -> None:
        """A kernel has been compiled, or could not be."""
        if _ours(event):
            self._depth -= 1
            self._kernels += 1
            took = time.perf_counter() - self._since
            self.told(self._kernels, self.seconds + took)
            if not self._depth:
                self.seconds += took


def _ours(event: event.Event) -> bool:
    return str(event.data["dispatcher"].py_func.__module__).startswith("fedbandits.")


_LISTENER = _Listener()
event.register("numba:compile", _LISTENER)  # type: ignore[no-untyped-call]
