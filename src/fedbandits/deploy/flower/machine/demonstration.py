"""A federation to watch: agents as processes of their own, fed with traffic, talking through Flower over TLS."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.live import Live
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn
from rich.table import Table

from fedbandits.algorithms import DisLinUCB
from fedbandits.contract.arrays import FloatArray
from fedbandits.deploy.embedded.agent import Agent
from fedbandits.deploy.flower.book.book import Book
from fedbandits.deploy.flower.machine.commands import EXECUTOR, NODE_LOADS
from fedbandits.deploy.flower.machine.launch import NODES, Federation
from fedbandits.deploy.flower.machine.switchboard import Switchboard
from fedbandits.deploy.flower.machine.traffic import environment_of, world_of
from fedbandits.deploy.settings import Settings
from fedbandits.linalg.compiling import once, telling
from fedbandits.simulation.loop import simulate

_LOOK_SECONDS = 0.25
_TRAFFIC = "fedbandits.deploy.flower.machine.traffic"


@dataclass(frozen=True, slots=True)
class DemoResult:
    """What a demonstration measured."""

    decisions: int
    regret: float
    """Of the deployed federation."""
    isolated: float
    """Of the same agents on the same traffic, if none of them ever talked."""
    synchronisations: int
    messages: int
    signals: int
    bytes: int
    rejected: int

    def table(self) -> Table:
        """For people."""
        table = Table(title="The same agents on the same traffic")
        for name in ("", "regret", "synchronisations", "messages", "bytes"):
            table.add_column(name, justify="left" if not name else "right")
        counts = (self.synchronisations, self.messages, self.bytes)
        table.add_row("federated over Flower", f"{self.regret:.1f}", *(f"{count:,}" for count in counts))
        table.add_row("isolated", f"{self.isolated:.1f}", "0", "0", "0")
        return table


@dataclass(frozen=True, slots=True)
class Demonstration:
    """Agents as processes of their own, fed with traffic, talking through a `switchboard` that loads already.

    See `run_demo`. What happens is said by `say`, and shown on the `console`.
    """

    switchboard: Switchboard
    agents: int
    steps: int
    pace: float
    seed: int
    console: Console
    say: Callable[[str], None]

    def run(self, *, alone: bool) -> DemoResult:
        """From the first import to the last decision; everything is stopped at the end but the switchboard."""
        described = json.dumps({"name": "linear", "clients": self.agents, "dim": 10, "arms": 20, "noise": 0.5})
        environment = environment_of(described)
        problem = world_of(environment, self.steps, self.seed).problem
        algorithm = DisLinUCB(threshold=2.0)
        settings = Settings(
            algorithm=algorithm,
            dim=problem.dim,
            arms=problem.arms,
            agents=self.agents,
            horizon=self.steps,
            seed=self.seed,
            common=self.seed,
            facts=problem.facts,
        )
        with telling(once(self.say)):
            # one process compiles what all would compile at once on a new machine, before the traffic was over
            simulate(algorithm, environment, self.steps, self.seed)
            isolated = simulate(replace(algorithm, threshold=math.inf), environment, self.steps, self.seed)
        needed = [*NODE_LOADS, _TRAFFIC, *([] if self.switchboard.executes else [EXECUTOR])]
        self.switchboard.processes.load(NODES, needed, here=alone)  # before any file is open
        directory = self.switchboard.layout.directory
        federation = Federation(directory, settings, interval=0.5, tell=self.say, switchboard=self.switchboard)
        try:
            result = self._traffic_through(federation, described, float(isolated.regret[-1]))
        finally:
            federation.stop()
        if result.synchronisations:
            self.console.print(result.table())
        else:
            self.console.print(_why_nothing_was_said([federation.agent_path(who) for who in range(self.agents)]))
        if result.rejected:
            self.console.print(f"{result.rejected} replies or nodes were rejected; see {directory / 'logs'}")
        return result

    def _traffic_through(self, federation: Federation, described: str, isolated: float) -> DemoResult:
        told = [federation.directory / f"regrets-{identity}.txt" for identity in range(self.agents)]
        begin = federation.directory / "begin"
        begin.unlink(missing_ok=True)
        common = ("--steps", str(self.steps), "--seed", str(self.seed), "--pace", str(self.pace), "--begin", str(begin))
        traffic = {
            _traffic(identity): (_TRAFFIC, str(federation.agent_path(identity)), str(path), described, *common)
            for identity, path in enumerate(told)
        }
        federation.start(traffic)
        begin.touch()
        self.say("traffic begins")
        _watch(federation, told, self.steps, self.console)
        return _result(federation.book, told, isolated)


def _traffic(identity: int) -> str:
    return f"traffic-{identity}"


def _why_nothing_was_said(agents: Sequence[Path]) -> str:
    """Without a synchronisation there is nothing to compare: both figures are of agents that were alone."""
    calling = 0
    for path in agents:
        with Agent.open(path, warm=False) as agent:
            calling += agent.status().calling
    if calling:
        return (
            f"No synchronisation: {calling} agents were calling when the traffic ended, before the server had come to "
            "it. Give it more time: a lower --pace, or more --steps."
        )
    return "No synchronisation: too little traffic for any agent to call. Let each take more decisions: --steps."


def _watch(federation: Federation, told: Sequence[Path], steps: int, console: Console) -> None:
    """Show progress until all traffic is over."""
    progress = Progress(TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), console=console)
    bars = [progress.add_task(f"agent {identity}", total=steps) for identity in range(len(told))]
    with Live(console=console, refresh_per_second=4, transient=True) as live:
        over = False
        while not over:
            over = not any(federation.processes.alive(_traffic(identity)) for identity in range(len(told)))
            regrets = [_regrets(path) for path in told]
            for bar, regret in zip(bars, regrets, strict=True):
                progress.update(bar, completed=len(regret))
            live.update(_shown(progress, federation.book, sum(float(regret.sum()) for regret in regrets)))
            time.sleep(_LOOK_SECONDS)
    for identity, path in enumerate(told):
        if len(_regrets(path)) < steps:
            raise RuntimeError(f"traffic ended early:\n{federation.processes.last_words(_traffic(identity))}")


def _shown(progress: Progress, book: Book, regret: float) -> Table:
    ledger = book.ledger()
    grid = Table.grid()
    grid.add_row(progress)
    messages = ledger.up.messages + ledger.down.messages
    weight = ledger.up.bytes + ledger.down.bytes
    grid.add_row(
        f"regret {regret:.1f}   synchronisations {int(ledger.conversations)}   messages {messages}   bytes {weight:,}"
        f"   nodes {int(book.fact('present'))}"
    )
    return grid


def _result(book: Book, told: Sequence[Path], isolated: float) -> DemoResult:
    regrets = [_regrets(path) for path in told]
    ledger = book.ledger()
    return DemoResult(
        decisions=sum(len(regret) for regret in regrets),
        regret=sum(float(regret.sum()) for regret in regrets),
        isolated=isolated,
        synchronisations=int(ledger.conversations),
        messages=ledger.up.messages + ledger.down.messages,
        signals=ledger.up.signals + ledger.down.signals,
        bytes=ledger.up.bytes + ledger.down.bytes,
        rejected=len(book.rejections()),
    )


def _regrets(path: Path) -> FloatArray:
    """Those of complete lines."""
    if not path.exists():
        return np.empty(0)
    return np.array([float(line) for line in path.read_text().split("\n")[:-1]], dtype=np.float64)
