"""Programs that end with whoever started them."""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from fedbandits.deploy.files import private, private_directory

_MARK = "FEDBANDITS_FEDERATION"
_PROCESSES = Path("/proc")
"""Where Linux tells of all processes; elsewhere only the groups of the programs themselves can be told."""
_SET_DEATH_SIGNAL = 1
_GRACE_SECONDS = 5.0
_UMASK = 0o077 if os.name == "posix" else -1
"""What programs write, Flower's among them, is for their owner alone."""


class Programs:
    """Starts programs and stops all of them, with everything that they have started in turn.

    Each program has a process group of its own, and an environment variable marks it and its descendants, so that
    those are found that have left the group. If this process is killed, the kernel tells the programs to end (on
    Linux).
    """

    def __init__(self, mark: str, environment: Mapping[str, str], logs: Path) -> None:
        self._mark = f"{mark}-{os.getpid()}-{time.monotonic_ns()}"
        self._environment = {**os.environ, **environment}
        self._logs = logs
        self._running: dict[str, subprocess.Popen[bytes]] = {}

    def start(self, name: str, command: Sequence[str]) -> None:
        """Start a program under a name; what it prints goes to a file of that name."""
        private_directory(self._logs)
        with open(self._logs / f"{name}.log", "ab", opener=private) as log:
            self._running[name] = subprocess.Popen(
                list(command),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                env=self._environment | {_MARK: self._mark_of(name)},
                start_new_session=True,
                preexec_fn=_end_with_parent if sys.platform == "linux" else None,
                umask=_UMASK,
            )

    def run(self, name: str, command: Sequence[str], seconds: float = 600.0) -> str:
        """Run a program to its end and return what it printed; raises `RuntimeError` if it fails."""
        done = subprocess.run(
            list(command),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            env=self._environment | {_MARK: self._mark_of(name)},
            timeout=seconds,
            umask=_UMASK,
        )
        if done.returncode != 0:
            raise RuntimeError(f"{name} failed: {done.stdout}{done.stderr}")
        return done.stdout

    def alive(self, name: str) -> bool:
        """Whether a program runs."""
        return name in self._running and self._running[name].poll() is None

    def last_words(self, name: str, lines: int = 15) -> str:
        """The end of what a program has printed."""
        path = self._logs / f"{name}.log"
        return "\n".join(path.read_text(errors="replace").splitlines()[-lines:]) if path.exists() else ""

    def stop(self, *names: str, kill: bool = False) -> None:
        """Stop programs, all if none is named; `kill` gives them no chance to tidy up."""
        chosen = list(names or self._running)
        for name in chosen:
            self._signal(name, signal.SIGKILL if kill else signal.SIGTERM)
        until = time.monotonic() + _GRACE_SECONDS
        while any(self._survivors(name) for name in chosen) and time.monotonic() < until:
            time.sleep(0.05)
        for name in chosen:
            self._signal(name, signal.SIGKILL)
            process = self._running.pop(name, None)
            if process is not None:
                process.wait()

    def kill_descendant(self, name: str, pid: int) -> None:
        """Kill one of the processes that a program has started."""
        if pid not in self._survivors(name):
            raise ProcessLookupError(f"{pid} was not started by {name}")
        os.kill(pid, signal.SIGKILL)

    def _signal(self, name: str, number: signal.Signals) -> None:
        """Tell a program's processes, each once: a second signal would cut short how they end on the first."""
        if not _PROCESSES.exists():
            process = self._running.get(name)
            if process is not None and process.poll() is None:
                os.killpg(process.pid, number)
        for pid in self._survivors(name):
            with suppress(ProcessLookupError):
                os.kill(pid, number)

    def _survivors(self, name: str) -> list[int]:
        """The processes that bear the mark of a program."""
        process = self._running.get(name)
        if process is not None:
            process.poll()  # one that has ended is not a survivor
        wanted = f"{_MARK}={self._mark_of(name)}".encode()
        found = []
        for entry in _PROCESSES.glob("[0-9]*/environ"):
            with suppress(OSError):
                if wanted in entry.read_bytes().split(b"\0"):
                    found.append(int(entry.parent.name))
        return found

    def _mark_of(self, name: str) -> str:
        return f"{self._mark}-{name}"


def _end_with_parent() -> None:
    ctypes.CDLL(None).prctl(_SET_DEATH_SIGNAL, signal.SIGTERM)
