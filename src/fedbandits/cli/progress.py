"""Simulations as they go: a bar for each algorithm over its seeds, one for all, decisions per second."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path

import typer
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeRemainingColumn

from fedbandits.cli.console import err, note
from fedbandits.contract.world import Environment
from fedbandits.environments.attendance import awake_per_step
from fedbandits.linalg import compiling
from fedbandits.report.readable import human
from fedbandits.studies.tasks import Task


class Bars:
    """A watcher that draws on a terminal, and elsewhere says a line whenever an algorithm is done."""

    def __init__(self) -> None:
        self._console = err()
        self._progress = Progress(
            TextColumn("{task.description}"),
            BarColumn(bar_width=None),
            TextColumn("{task.fields[runs]:>7}"),
            TextColumn("{task.fields[speed]:>12}", style="dim"),
            TimeRemainingColumn(compact=True),
            console=self._console,
            expand=True,
        )
        self._tasks: Sequence[Task] = ()
        self._steps: dict[int, int] = {}
        self._bars: dict[str, TaskID] = {}
        self._compiling = self._progress.add_task(
            "[dim]compiling, once per machine", total=None, visible=False, runs="", speed=""
        )
        self._note_compiling = compiling.once(note)
        self.done = 0
        self.resumed = 0

    @property
    def total(self) -> int:
        """How many runs there are."""
        return len(self._tasks)

    def shown(self) -> AbstractContextManager[object]:
        """The bars on the terminal while inside; nothing where there is no terminal."""
        return self._progress if self._console.is_terminal else nullcontext()

    def begin(self, tasks: Sequence[Task]) -> None:
        """Lay out the bars."""
        self._tasks = tasks
        self._steps = dict.fromkeys(range(len(tasks)), 0)
        self._began = time.perf_counter()
        self._decided = 0
        self._seeds, steps = Counter[str](), Counter[str]()
        for task in tasks:
            self._seeds[task.label] += 1
            steps[task.label] += task.horizon
        self._left = dict(self._seeds)
        for label, runs in self._seeds.items():
            self._bars[label] = self._progress.add_task(_escaped(label), total=steps[label], runs=f"0/{runs}", speed="")
        self._overall = self._progress.add_task("[bold]all runs", total=steps.total(), runs=f"0/{len(tasks)}", speed="")

    def compile(self, kernels: int, seconds: float) -> None:
        """So many kernels have been compiled, in so many seconds."""
        if self._console.is_terminal:
            self._progress.update(self._compiling, visible=True, runs=f"{kernels}", speed=f"{seconds:.0f} s")
        else:
            self._note_compiling(kernels, seconds)

    def advance(self, index: int, steps_done: int) -> None:
        """A run has come this far."""
        self._progress.update(self._compiling, visible=False)
        self._move(index, max(steps_done, 0))
        self._speed()

    def finish(self, index: int, resumed: bool) -> None:
        """A run is done."""
        task = self._tasks[index]
        self._move(index, task.horizon, counted=not resumed)
        self._speed()
        self.done += 1
        self.resumed += resumed
        self._left[task.label] -= 1
        own = self._seeds[task.label]
        self._progress.update(self._bars[task.label], runs=f"{own - self._left[task.label]}/{own}")
        self._progress.update(self._overall, runs=f"{self.done}/{self.total}")
        if not self._left[task.label] and not self._console.is_terminal:
            note(f"{task.label}: {self._seeds[task.label]} runs done ({self.done} of {self.total} in all)")

    def _move(self, index: int, steps: int, *, counted: bool = True) -> None:
        task = self._tasks[index]
        forward = steps - self._steps[index]
        self._steps[index] = steps
        if counted:
            self._decided += forward * _awake(task.environment)
        for bar in (self._bars[task.label], self._overall):
            self._progress.advance(bar, forward)

    def _speed(self) -> None:
        seconds = time.perf_counter() - self._began
        if self._decided and seconds > 0:
            self._progress.update(self._overall, speed=f"{human(self._decided / seconds, digits=2)} dec./s")


@contextmanager
def watched(keeps: Path | None) -> Iterator[Bars]:
    """Bars for the runs started inside; Ctrl-C ends with code 130 and says what is kept in `keeps`."""
    bars = Bars()
    try:
        with bars.shown(), compiling.telling(bars.compile):
            yield bars
    except KeyboardInterrupt:
        if keeps is None:
            note("stopped; nothing was kept. With --out DIR finished runs are kept and the same command resumes.")
        else:
            note(
                f"stopped; {bars.done} of {bars.total} runs are kept in {keeps}. Run the same command again to resume."
            )
        raise typer.Exit(130) from None
    if bars.resumed:
        note(f"{bars.resumed} of {bars.total} runs were there already, {bars.total - bars.resumed} were run now")


def _awake(environment: Environment) -> int:
    """Decisions per step, as far as the environment's parameters tell."""
    clients = getattr(environment, "clients", 1)
    return awake_per_step(getattr(environment, "schedule", "all"), clients)


def _escaped(label: str) -> str:
    return label.replace("[", "\\[")
