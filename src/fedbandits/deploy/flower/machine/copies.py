"""Programs that are loaded once: one process imports what all of them need, and becomes each of them in a copy.

    python -m fedbandits.deploy.flower.machine.copies LOGS '{"node-0": ["fedbandits.deploy.flower.node", ...], ...}'

Loading takes seconds of a processor, and a federation on one machine has many programs of a kind. A copy has a session,
a log and a number (LOGS/node-0.pid) of its own, and is otherwise what `python -m MODULE ARGUMENTS...` would be. It ends
with whoever made it. Linux alone: elsewhere `Programs` starts them one by one.
"""

from __future__ import annotations

import importlib
import json
import os
import signal
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from types import FrameType

from fedbandits.deploy.storage.files import private, write_private


def main() -> None:
    """Make the copies, and wait until all of them have ended."""
    logs, told = Path(sys.argv[1]), json.loads(sys.argv[2])
    for module in {module for module, *_ in told.values()}:
        importlib.import_module(module)
    copies: list[int] = []
    starter = os.getppid()
    for name, (module, *arguments) in told.items():
        copy = os.fork()
        if copy == 0:
            become(module, arguments, logs / name)
            return
        copies.append(copy)

    def pass_on(number: int, _: FrameType | None) -> None:
        # whoever stops a federation tells copies, too, and a second signal would cut short how they end on the first
        if os.getppid() != starter:
            for copy in copies:
                with suppress(ProcessLookupError):
                    os.kill(copy, number)

    signal.signal(signal.SIGTERM, pass_on)
    for copy in copies:
        os.waitpid(copy, 0)


def become(module: str, arguments: Sequence[str], log: Path) -> None:
    """Be `python -m module arguments` from now on, under the name that `log` has."""
    from fedbandits.deploy.flower.machine.processes import end_with_parent

    os.setsid()
    end_with_parent()
    output = private(log.with_name(f"{log.name}.log"), os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    for descriptor in (1, 2):
        os.dup2(output, descriptor)
    sys.argv = [module, *arguments]
    sys.orig_argv = [sys.executable, "-m", module, *arguments]
    write_private(log.with_name(f"{log.name}.pid"), str(os.getpid()))
    importlib.import_module(module).main()


if __name__ == "__main__":
    main()
