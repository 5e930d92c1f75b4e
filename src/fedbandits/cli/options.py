"""Options that several commands have in common."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

Jobs = Annotated[
    int | None,
    typer.Option("--jobs", "-j", help="Simulations side by side; all cores if not given.", show_default=False),
]
Engine = Annotated[str, typer.Option("--engine", help="Where they run: local, or ray (extra 'ray').")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON, for programs, instead of tables.")]
AgentFile = Annotated[Path, typer.Argument(metavar="DB", help="The agent's file, which may be in use.")]
AddFeature = Annotated[
    str | None, typer.Option("--add-feature", help="A new feature, the last of all.", show_default=False)
]
DropFeature = Annotated[str | None, typer.Option("--drop-feature", help="A feature to be without.", show_default=False)]
NameFeatures = Annotated[
    str | None, typer.Option("--name-features", help="Names for features that have none: a,b,c.", show_default=False)
]
OutDirectory = Annotated[
    Path | None,
    typer.Option("--out", "-o", help="Keep results and report here; resumes what is there.", show_default=False),
]


def all_cores(jobs: int | None) -> int:
    """`jobs`, or as many as this process may use cores."""
    if jobs is not None:
        return jobs
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
