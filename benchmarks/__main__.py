"""Everything, one after the other: `python -m benchmarks [--quick] [--record FILE]`.

`--record` puts the numbers of all of it into one file, with the machine that they are of; `benchmarks.page` fills
pages of docs from it.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path

from benchmarks.command import keep, machine

MODULES = (
    "kernels",
    "simulations",
    "both_ways",
    "peers",
    "kernel_processes",
    "nonlinear",
    "neural",
    "networks",
    "planning",
    "models",
    "costs",
    "agent",
)


def main() -> None:
    """Run all of them, each in a process of its own."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="shorter runs")
    parser.add_argument("--record", type=Path, help="put all numbers into this file")
    options = parser.parse_args()
    record = {"machine": machine()}
    with tempfile.TemporaryDirectory() as directory:
        for name in MODULES:
            file = Path(directory) / f"{name}.json"
            command = [sys.executable, "-m", f"benchmarks.{name}", "--json", str(file)]
            subprocess.run(command + ["--quick"] * options.quick, check=True)
            record[name] = json.loads(file.read_text(encoding="utf-8"))
    keep(record, options.record)


if __name__ == "__main__":
    main()
