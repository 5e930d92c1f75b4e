"""How long a federation takes to start: `python -m benchmarks.start_up [--repeat 3] [--json]`. Linux.

From `fedbandits federation demo` to the moment at which the server has rung, all five agents were there, and each of
them has decided once. Beside the clock on the wall, which depends on what else the machine does, stands the processor
time of all processes together, and that of a fixed piece of work: one process that imports what a node and the server
import, and nothing more. The rest is what starting takes beyond loading everything once.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import os
import signal
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import time
from contextlib import closing, suppress
from pathlib import Path

AGENTS = 5
LONGEST = 600.0
UNIT = "import fedbandits.deploy.flower.node, fedbandits.deploy.flower.server_app"
_ADOPT_ORPHANS = 36
_TICKS = os.sysconf("SC_CLK_TCK")


def start_up() -> tuple[float, float]:
    """Seconds on the wall, and of processors."""
    ctypes.CDLL(None).prctl(_ADOPT_ORPHANS, 1, 0, 0, 0)  # so that nothing that was started is lost from sight
    with tempfile.TemporaryDirectory(prefix="fedbandits-") as scratch:
        where = Path(scratch) / "federation"
        command = [sys.executable, "-m", "fedbandits", "federation", "demo", "--agents", str(AGENTS)]
        began = time.monotonic()
        demo = subprocess.Popen(
            [*command, "--steps", "1000", "--pace", "1", "--out", str(where)],
            stdout=subprocess.DEVNULL,
            preexec_fn=_heed_interrupts,
        )
        try:
            while not _ready(where):
                if demo.poll() is not None or time.monotonic() - began > LONGEST:
                    raise RuntimeError(f"the demonstration did not start within {LONGEST:g} s")
                time.sleep(0.05)
            return time.monotonic() - began, _processor_seconds(demo.pid)
        finally:
            demo.send_signal(signal.SIGINT)
            demo.wait()


def _heed_interrupts() -> None:
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # shells let programs in the background ignore it


def unit() -> float:
    """Processor seconds of a process that imports everything once."""
    script = f"{UNIT}, time; print(time.process_time())"
    return float(subprocess.run([sys.executable, "-c", script], check=True, capture_output=True, text=True).stdout)


def _ready(where: Path) -> bool:
    told = [where / f"regrets-{identity}.txt" for identity in range(AGENTS)]
    if not all(path.exists() and path.stat().st_size for path in told):
        return False
    with suppress(sqlite3.Error), closing(sqlite3.connect(f"file:{where / 'server.db'}?mode=ro", uri=True)) as book:
        present = book.execute("SELECT value FROM facts WHERE name = 'present'").fetchone()
        return present is not None and int(present[0]) >= AGENTS
    return False


def _processor_seconds(ancestor: int) -> float:
    """Of a process and all that it has started, those that have ended included."""
    used: dict[int, float] = {}
    parents: dict[int, int] = {}
    for entry in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            pid, fields = int(entry.parent.name), entry.read_text().rpartition(")")[2].split()
            parents[pid], used[pid] = int(fields[1]), sum(map(int, fields[11:15])) / _TICKS
    found = [ancestor]
    for each in found:
        found += [pid for pid, parent in parents.items() if parent == each]
    return sum(used.get(pid, 0.0) for pid in found)


def main() -> None:
    """Measure and print medians."""
    parser = argparse.ArgumentParser(description="How long a federation takes to start.")
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--json", action="store_true")
    told = parser.parse_args()
    start_up()  # compiles what is not compiled yet
    measured = [(*start_up(), unit()) for _ in range(told.repeat)]
    wall, processors, units = (statistics.median(column) for column in zip(*measured, strict=True))
    found = {
        "seconds": wall,
        "processor_seconds": processors,
        "import_seconds": units,
        "times_the_import": statistics.median(one[1] / one[2] for one in measured),
    }
    if told.json:
        print(json.dumps(found))
        return
    print(f"{AGENTS} agents ready after {wall:.1f} s, with {processors:.1f} s of processors,")
    print(f"{found['times_the_import']:.1f} times what importing everything takes once ({units:.1f} s)")


if __name__ == "__main__":
    main()
