"""Programs that are loaded once: one process imports what all of them need, and becomes each of them in a copy.

    python -m fedbandits.deploy.flower.machine.copies LOGS fedbandits.deploy.flower.node ...

Loading takes seconds of a processor, and a federation on one machine has many programs of a kind. It loads the modules
it is given, and then reads from its standard input what to become, as JSON, to the end of it:
`{"node-0": ["fedbandits.deploy.flower.node", "--superlink", ...], ...}`. A copy has a session, a log and a number
(LOGS/node-0.pid) of its own, and is otherwise what `python -m MODULE ARGUMENTS...` would be. It ends with whoever made
it. `of_this_process` makes such a loader of a process that has loaded most of it already. Linux alone: elsewhere
`Programs` starts them one by one.
"""

from __future__ import annotations

import importlib
import json
import os
import signal
import sys
import traceback
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from types import FrameType
from typing import IO

from fedbandits.deploy.storage.files import private, write_private


class Loader:
    """A copy of this process that loads what is missing and waits to be told what to become, as if by `main`."""

    def __init__(self, pid: int, tell: IO[bytes]) -> None:
        self.pid = pid
        self.stdin = tell
        self._code: int | None = None

    def poll(self) -> int | None:
        """Its exit code, once it has ended."""
        return self._look(os.WNOHANG)

    def wait(self) -> int:
        """Its exit code, as soon as it has ended."""
        code = self._look(0)
        return -1 if code is None else code

    def _look(self, how: int) -> int | None:
        if self._code is None:
            pid, status = os.waitpid(self.pid, how)
            if pid:
                self._code = os.waitstatus_to_exitcode(status)
        return self._code


def of_this_process(modules: Sequence[str], logs: Path, log: Path, environment: Mapping[str, str]) -> Loader:
    """Copy this process, which has nothing open that a copy must not have (SQLite's files, threads), as a loader of
    `modules`; what it prints goes to `log`.
    """
    reading, writing = os.pipe()
    starter = os.getpid()
    pid = os.fork()
    if pid:
        os.close(reading)
        return Loader(pid, os.fdopen(writing, "wb"))
    code = 1
    try:
        os.close(writing)
        os.dup2(reading, 0)
        sys.stdin = os.fdopen(0)
        _apart(log)
        os.environ.update(environment)
        if os.getppid() == starter:  # or else nobody is left to tell anything
            load_and_become(modules, logs)
        code = 0
    except SystemExit as ended:
        code = _code_of(ended)
    except BaseException:
        traceback.print_exc()
    finally:
        # what this is a copy of has its own way of ending, which is not for copies
        with suppress(OSError, ValueError):
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(code)


def _code_of(ended: SystemExit) -> int:
    if ended.code is None or isinstance(ended.code, int):
        return ended.code or 0
    print(ended.code, file=sys.stderr)
    return 1


def main() -> None:
    """Load, make the copies, and wait until all of them have ended."""
    load_and_become(sys.argv[2:], Path(sys.argv[1]))


def load_and_become(modules: Sequence[str], logs: Path) -> None:
    """Load `modules`, read what to become, be that in copies, and return when all of them have ended."""
    for module in modules:
        importlib.import_module(module)
    copies: list[int] = []
    starter = os.getppid()
    told = json.loads(sys.stdin.read() or "{}")
    for name, (module, *arguments) in told.items():
        copy = os.fork()
        if copy == 0:
            become(module, arguments, logs / name)
            sys.exit()
        copies.append(copy)

    def pass_on(number: int, _: FrameType | None) -> None:
        # whoever stops a federation tells copies, too, and a second signal would cut short how they end on the first
        if os.getppid() != starter:
            for copy in copies:
                with suppress(ProcessLookupError):
                    os.kill(copy, number)

    signal.signal(signal.SIGTERM, pass_on)
    for _ in copies:
        os.wait()  # for whichever has ended


def become(module: str, arguments: Sequence[str], log: Path) -> None:
    """Be `python -m module arguments` from now on, under the name that `log` has."""
    _apart(log.with_name(f"{log.name}.log"))
    sys.argv = [module, *arguments]
    sys.orig_argv = [sys.executable, "-m", module, *arguments]
    write_private(log.with_name(f"{log.name}.pid"), str(os.getpid()))
    importlib.import_module(module).main()


def _apart(log: Path) -> None:
    """Be a process with a session and a log of its own that ends with the one it was copied from."""
    from fedbandits.deploy.flower.machine.processes import UMASK, end_with_parent

    os.setsid()
    os.umask(UMASK)
    end_with_parent()
    output = private(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    for descriptor in (1, 2):
        os.dup2(output, descriptor)


if __name__ == "__main__":
    main()
