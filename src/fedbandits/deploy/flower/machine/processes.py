"""Programs that end with whoever started them."""

from __future__ import annotations

import ctypes
import importlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from fedbandits.deploy.flower.machine import copies
from fedbandits.deploy.storage.files import private, private_directory

_MARK = "FEDBANDITS_FEDERATION"
_PROCESSES = Path("/proc")
"""Where Linux tells of all processes; elsewhere only the groups of the programs themselves can be told."""
_SET_DEATH_SIGNAL = 1
_GRACE_SECONDS = 5.0
UMASK = 0o077 if os.name == "posix" else -1
"""What programs write, Flower's among them, is for their owner alone."""


class Programs:
    """Starts programs and stops all of them, with everything that they have started in turn.

    Each program has a process group of its own, and an environment variable marks it and its descendants, so that
    those are found that have left the group. If this process is killed, the kernel tells the programs to end (on
    Linux).
    """

    def __init__(self, mark: str, environment: Mapping[str, str], logs: Path) -> None:
        self._mark = f"{mark}-{os.getpid()}-{time.monotonic_ns()}"
        self.environment = {**os.environ, **environment}
        """What they are started with."""
        self._logs = logs
        self._running: dict[str, subprocess.Popen[bytes] | copies.Loader] = {}
        self._copies: dict[str, str] = {}
        """Programs that are copies of another one, and which (`copies`)."""

    def start(self, name: str, command: Sequence[str], *, told_later: bool = False) -> None:
        """Start a program under a name; what it prints goes to a file of that name. One that is `told_later` reads
        from its standard input.
        """
        private_directory(self._logs)
        self._copies.pop(name, None)
        with open(self._log_of(name), "ab", opener=private) as log:
            self._running[name] = subprocess.Popen(
                list(command),
                stdin=subprocess.PIPE if told_later else subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                env=self.environment | {_MARK: self._mark_of(name)},
                start_new_session=True,
                preexec_fn=end_with_parent if sys.platform == "linux" else None,
                umask=UMASK,
            )

    def load(self, family: str, modules: Sequence[str], *, here: bool = False) -> None:
        """Load what the programs of a family need, once for all of them, where that is possible (`copies`).

        `here`: by a copy of this process, which has loaded most of it and has nothing open that a copy must not have.
        """
        if sys.platform != "linux":
            return
        private_directory(self._logs)
        if here:
            for module in modules:  # what this process needs of it itself is then loaded once, too
                importlib.import_module(module)
            self._running[family] = copies.of_this_process(
                modules, self._logs, self._log_of(family), self.environment | {_MARK: self._mark_of(family)}
            )
        else:
            command = [sys.executable, "-m", copies.__name__, str(self._logs), *modules]
            self.start(family, command, told_later=True)

    def start_together(self, family: str, commands: Mapping[str, Sequence[str]]) -> None:
        """Start the Python programs of a family (module and arguments, by name), which `load` has loaded if it can.

        They are stopped and looked at like others; the log of the family tells if loading has failed.
        """
        if sys.platform != "linux":
            for name, command in commands.items():
                self.start(name, [sys.executable, "-m", *command])
            return
        if family not in self._running:
            self.load(family, sorted({module for module, *_ in commands.values()}))
        for name in commands:
            self._number_of(name).unlink(missing_ok=True)
        loader = self._running[family].stdin
        assert loader is not None
        with suppress(BrokenPipeError), loader:  # if it has failed to load, its log tells
            loader.write(json.dumps({name: list(command) for name, command in commands.items()}).encode())
        self._copies |= dict.fromkeys(commands, family)

    def run(self, name: str, command: Sequence[str], seconds: float = 600.0) -> str:
        """Run a program to its end and return what it printed; raises `RuntimeError` if it fails."""
        done = subprocess.run(
            list(command),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            env=self.environment | {_MARK: self._mark_of(name)},
            timeout=seconds,
            umask=UMASK,
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
        path = self._log_of(name)
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

    def _log_of(self, name: str) -> Path:
        return self._logs / f"{name}.log"

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
        if isinstance(process, copies.Loader):  # its environment is that of the process it is a copy of
            return [pid for pid in _descendants(process.pid) if process.poll() is None]
        wanted = f"{_MARK}={self._mark_of(name)}".encode()
        found = []
        for entry in _PROCESSES.glob("[0-9]*/environ"):
            with suppress(OSError):
                if wanted in entry.read_bytes().split(b"\0"):
                    found.append(int(entry.parent.name))
        return found

    def _mark_of(self, name: str) -> str:
        return f"{self._mark}-{name}"


def _descendants(ancestor: int) -> list[int]:
    """A process and all that it has started, and those in turn, as far as they run."""
    parents = {}
    for entry in _PROCESSES.glob("[0-9]*/stat"):
        with suppress(OSError):
            state, parent = entry.read_text().rpartition(")")[2].split()[:2]
            if state != "Z":
                parents[int(entry.parent.name)] = int(parent)
    found = [ancestor]
    for each in found:
        found += [pid for pid, parent in parents.items() if parent == each]
    return found


def end_with_parent() -> None:
    """Let the kernel end this process when the one that has started it ends; Linux alone."""
    ctypes.CDLL(None).prctl(_SET_DEATH_SIGNAL, signal.SIGTERM)
