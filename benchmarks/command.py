"""What all benchmarks have in common: what they are asked on the command line, and where their numbers go."""

from __future__ import annotations

import argparse
import importlib.metadata
import json
import os
import platform
from pathlib import Path
from typing import Any

import llvmlite.binding


def parser(doc: str | None, quick: str = "shorter runs") -> argparse.ArgumentParser:
    """For a benchmark with that docstring; it knows `--json` and `--quick`."""
    made = argparse.ArgumentParser(description=(doc or "").splitlines()[0])
    made.add_argument("--json", type=Path, help="write all numbers to this file")
    made.add_argument("--quick", action="store_true", help=quick)
    return made


def keep(report: Any, file: Path | None) -> None:
    """Write the numbers for programs, if somebody wants them."""
    if file is not None:
        file.write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")


def machine() -> dict[str, Any]:
    """Where this is measured, and how busy that is."""
    model = platform.processor()
    info = Path("/proc/cpuinfo")
    if info.exists():
        named = [line for line in info.read_text().splitlines() if line.startswith("model name")]
        model = named[0].split(":", 1)[1].strip() if named else model
    versions = {name: importlib.metadata.version(name) for name in ("numpy", "numba")}
    busy = {"cores": os.cpu_count(), "load": round(os.getloadavg()[0], 1)}
    kind = llvmlite.binding.get_host_cpu_name()
    return {"cpu": model, "kind": kind, **busy, "python": platform.python_version(), **versions}
