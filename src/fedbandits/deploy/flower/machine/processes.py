"""Programs that end with whoever started them."""

from __future__ import annotations

import ctypes
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from fedbandits.deploy.storage.files import private, private_directory

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
        self._copies: dict[str, str] = {}
        """Programs that are copies of another one, and which (`copies`)."""

    def start(self, name: str, command: Sequence[str]) -> None:
        """Start a program under a name; what it prints goes to a file of that name."""
        private_directory(self._logs)
        self._copies.pop(name, None)
        with open(self._logs / f"{name}.log", "ab", opener=private) as log:
            self._running[name] = subprocess.Popen(
                list(command),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                env=self._environment | {_MARK: self._mark_of(name)},
                start_new_session=True,
                preexec_fn=end_with_parent if sys.platform == "linux" else None,
                umask=_UMASK,
            )

    def start_together(self, family: str, commands: Mapping[str, Sequence[str]]) -> None:
        """Start Python programs (module and arguments, by name) that need the same, loaded once where that is possible.

        They are stopped and looked at like others; `family` is what loads them, and its log tells if that fails.
        """
        if sys.platform != "linux":
            for name, command in commands.items():
                self.start(name, [sys.executable, "-m", *command])
            return
        for name in commands:
            self._number_of(name).unlink(missing_ok=True)
        told = json.dumps({name: list(command) for name, command in commands.items()})
        self.start(family, [sys.executable, "-m", "fedbandits.deploy.flower.machine.copies", str(self._logs), told])
        self._copies |= dict.fromkeys(commands, family)

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
        if name in self._copies:
            return self.alive(self._copies[name]) and (
                not self._number_of(name).exists() or bool(self._survivors(name))
            )
        return name in self._running and self._running[name].poll() is None

    def last_words(self, name: str, lines: int = 15) -> str:
        """The end of what a program has printed."""
        path = self._logs / f"{name}.log"
        return "\n".join(path.read_text(errors="replace").splitlines()[-lines:]) if path.exists() else ""

    def stop(self, *names: str, kill: bool = False) -> None:
        """Stop programs, all if none is named; `kill` gives them no chance to tidy up."""
        chosen = list(names or self._running)
        for name in chosen:
            self._await_copy(name)
            self._signal(name, signal.SIGKILL if kill else signal.SIGTERM)
        until = time.monotonic() + _GRACE_SECONDS
        while any(self._survivors(name) for name in chosen) and time.monotonic() < until:
            time.sleep(0.05)
        for name in chosen:
            self._signal(name, signal.SIGKILL)
            self._copies.pop(name, None)
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

    def _await_copy(self, name: str) -> None:
        """Until a copy was made it cannot be told anything."""
        while name in self._copies and not self._number_of(name).exists() and self.alive(self._copies[name]):
            time.sleep(0.02)

    def _number_of(self, name: str) -> Path:
        return self._logs / f"{name}.pid"

    def _survivors(self, name: str) -> list[int]:
        """The processes that bear the mark of a program; a copy bears that of its family, and has a number."""
        if name in self._copies:
            number = int(self._number_of(name).read_text()) if self._number_of(name).exists() else None
            return [pid for pid in self._survivors(self._copies[name]) if pid == number]
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


def end_with_parent() -> None:
    """Let the kernel end this process when the one that has started it ends; Linux alone."""
    ctypes.CDLL(None).prctl(_SET_DEATH_SIGNAL, signal.SIGTERM)
