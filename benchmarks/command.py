"""What all benchmarks have in common: what they are asked on the command line, and where their numbers go."""

from __future__ import annotations

import argparse
import importlib.metadata
import json
import os
import platform
import time
from pathlib import Path
from typing import Any

import llvmlite.binding

_STATISTICS = Path("/proc/stat")


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
    """Where this is measured, and how much of its cores is free, 0 to 1, while nobody measures."""
    model = platform.processor()
    info = Path("/proc/cpuinfo")
    if info.exists():
        named = [line for line in info.read_text().splitlines() if line.startswith("model name")]
        model = named[0].split(":", 1)[1].strip() if named else model
    versions = {name: importlib.metadata.version(name) for name in ("numpy", "numba")}
    kind = llvmlite.binding.get_host_cpu_name()
    cores = {"cores": os.cpu_count(), "free": _free()}
    return {"cpu": model, "kind": kind, **cores, "python": platform.python_version(), **versions}


def _free(seconds: float = 2.0) -> float | None:
    """The share of all cores that nobody uses for some seconds; None where the system does not say."""
    if not _STATISTICS.exists():
        return None

    def counted() -> tuple[int, int]:
        spent = [int(word) for word in _STATISTICS.read_text().split("\n")[0].split()[1:9]]
        return sum(spent), spent[3] + spent[4]

    before = counted()
    time.sleep(seconds)
    total, idle = (now - then for now, then in zip(counted(), before, strict=True))
    return round(idle / max(total, 1), 2)
