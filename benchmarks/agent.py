"""What durability costs an agent: `python -m benchmarks.agent [--json FILE] [--quick] [--directory DIR]`.

One decision and its reward, d = 25 features, K = 25 arms: by the bare population, by the agent without and with waiting
for the disk, with another process's opening that writes in between, and beside them a bare SQLite transaction that
inserts as many bytes. Medians tell what a call costs; means include snapshots, checkpoints and other processes.
"""

from __future__ import annotations

import sqlite3
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table
from threadpoolctl import threadpool_limits

import fedbandits as fb
from benchmarks.command import keep, parser
from fedbandits.deploy import Agent
from fedbandits.deploy.settings import Settings

DIM = ARMS = 25
ALGORITHM = fb.algorithms.DisLinUCB(threshold=2.0)
ALONE = np.zeros(1, dtype=np.int64)
REWARD = 0.3
Call = Callable[[NDArray[np.float64]], Any]
Reward = Callable[[Any], Any]


def bare_population() -> tuple[Call, Reward]:
    population = Settings(algorithm=ALGORITHM, dim=DIM).population()

    def decide(arms: NDArray[np.float64]) -> Any:
        shown = arms[None]
        return shown, population.choose(ALONE, shown)

    def reward(decided: Any) -> None:
        population.learn(ALONE, *decided, np.array([REWARD]))

    return decide, reward


def bare_sqlite(directory: Path, durable: bool) -> tuple[Call, Reward]:
    """One insert in one transaction, for the arms and for a number."""
    database = sqlite3.connect(directory / f"bare-{durable}.db", isolation_level=None)
    database.execute("PRAGMA journal_mode = WAL")
    database.execute(f"PRAGMA synchronous = {'FULL' if durable else 'NORMAL'}")
    database.execute("PRAGMA wal_autocheckpoint = 10000")
    database.execute("CREATE TABLE shown (entry INTEGER PRIMARY KEY, arms BLOB)")
    database.execute("CREATE TABLE rewards (entry INTEGER PRIMARY KEY, value REAL)")
    cursor = database.cursor()

    def decide(arms: NDArray[np.float64]) -> None:
        cursor.execute("BEGIN IMMEDIATE")
        cursor.execute("INSERT INTO shown (arms) VALUES (?)", (arms,))
        cursor.execute("COMMIT")

    def reward(_: Any) -> None:
        cursor.execute("BEGIN IMMEDIATE")
        cursor.execute("INSERT INTO rewards (value) VALUES (?)", (REWARD,))
        cursor.execute("COMMIT")

    return decide, reward


def agent(directory: Path, name: str, **options: Any) -> tuple[Call, Reward]:
    opened = Agent.open(directory / f"{name}.db", ALGORITHM, DIM, **options)
    return opened.decide, lambda decided: opened.reward(decided.id, REWARD)


def two_openings(directory: Path) -> tuple[Call, Reward]:
    """One opening decides, another one takes the rewards: each has to do again what the other did."""
    here, there = (Agent.open(directory / "two.db", ALGORITHM, DIM, durable=False) for _ in range(2))
    return here.decide, lambda decided: there.reward(decided.id, REWARD)


def measure(title: str, calls: tuple[Call, Reward], rounds: int) -> dict[str, Any]:
    """Microseconds of a decision, of its reward, and of both."""
    decide, reward = calls
    arms = np.random.default_rng(0).normal(size=(1000, ARMS, DIM)) / np.sqrt(DIM)
    for number in range(20):
        reward(decide(arms[number]))
    seconds = np.empty((rounds, 2))
    for number in range(rounds):
        began = time.perf_counter()
        decided = decide(arms[number % len(arms)])
        between = time.perf_counter()
        reward(decided)
        seconds[number] = between - began, time.perf_counter() - between
    both = seconds.sum(axis=1)
    return {
        "title": title,
        "rounds": rounds,
        "decide": float(np.median(seconds[:, 0]) * 1e6),
        "reward": float(np.median(seconds[:, 1]) * 1e6),
        "both": float(np.median(both) * 1e6),
        "mean": float(both.mean() * 1e6),
        "p99": float(np.quantile(both, 0.99) * 1e6),
    }


def openings(directory: Path) -> dict[str, float]:
    """Milliseconds of opening: warm after closing, and with a thousand entries to do again."""
    path = directory / "openings.db"
    left = Agent.open(path, ALGORITHM, DIM, durable=False, snapshot_every=10**9)
    arms = np.random.default_rng(1).normal(size=(500, ARMS, DIM)) / np.sqrt(DIM)
    for shown in arms:
        left.reward(left.decide(shown).id, REWARD)
    began = time.perf_counter()
    again = Agent.open(path, durable=False)
    replay = time.perf_counter() - began
    again.close()
    began = time.perf_counter()
    Agent.open(path, durable=False).close()
    return {"after 1000 entries": 1e3 * replay, "after closing": 1e3 * (time.perf_counter() - began)}


def main() -> None:
    """Measure and print."""
    asked = parser(__doc__, "fewer calls")
    asked.add_argument("--directory", type=Path, help="where to put the files; decides what waiting for a disk costs")
    options = asked.parse_args()
    many, few = (2_000, 100) if options.quick else (20_000, 1_000)
    with tempfile.TemporaryDirectory(dir=options.directory) as name, threadpool_limits(1, "blas"):
        directory = Path(name)
        entries = [
            measure("bare population", bare_population(), many),
            measure("bare SQLite insert", bare_sqlite(directory, durable=False), many),
            measure("agent, durable=False", agent(directory, "quick", durable=False), many),
            measure("agent, durable=False, two openings", two_openings(directory), many),
            measure("bare SQLite insert, waiting for the disk", bare_sqlite(directory, durable=True), few),
            measure("agent, durable=True", agent(directory, "durable"), few),
        ]
        opened = openings(directory)
    population, insert, waiting = entries[0]["both"], entries[1]["both"], entries[4]["both"]
    table = Table(title=f"One decision and its reward, d = {DIM}, K = {ARMS}, in microseconds")
    table.add_column("")
    for column in ("decide", "reward", "both", "mean", "p99", "× population", "× SQLite"):
        table.add_column(column, justify="right")
    for entry in entries:
        like = waiting if entry["rounds"] == few else insert
        figures = [f"{entry[key]:,.0f}" for key in ("decide", "reward", "both", "mean", "p99")]
        table.add_row(entry["title"], *figures, f"{entry['both'] / population:,.1f}", f"{entry['both'] / like:,.1f}")
    console = Console(width=120)
    console.print(table)
    console.print("Opening: " + ", ".join(f"{title} {value:,.0f} ms" for title, value in opened.items()))
    keep({"calls": entries, "openings": opened}, options.json)


if __name__ == "__main__":
    main()
