"""What HTTP adds to an agent: `python -m benchmarks.agent_http [--json FILE] [--quick] [--directory DIR]`.

One decision and its reward, d = 25 features, K = 25 arms, by the agent in this process and by a service in another one,
without and with waiting for the disk; then many clients at once, and rewards in batches. Needs the extra `deploy`.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

import fedbandits as fb
from fedbandits.deploy import Agent

DIM = ARMS = 25
BATCH = 100
CLIENTS = 8
TOKEN = "a-token-that-is-only-used-in-benchmarks"
CONFIGURATION = """
[agent]
dim = {dim}
durable = {durable}
algorithm = {{ name = "dislinucb", threshold = 2.0 }}
"""
MENUS = (np.random.default_rng(0).normal(size=(200, ARMS, DIM)) / np.sqrt(DIM)).tolist()


class Client:
    def __init__(self, port: int) -> None:
        self._connection = HTTPConnection("127.0.0.1", port)

    def post(self, path: str, body: Any) -> Any:
        headers = {"Authorization": f"Bearer {TOKEN}", "Content-Type": "application/json"}
        self._connection.request("POST", path, json.dumps(body), headers)
        answer = self._connection.getresponse()
        content = json.loads(answer.read())
        if answer.status != 200:
            raise RuntimeError(content)
        return content

    def decide(self, arms: Any) -> str:
        return str(self.post("/decisions", {"arms": arms})["id"])

    def reward(self, decision: str) -> None:
        self.post("/rewards", {"decision": decision, "value": 0.3})


@contextmanager
def service(directory: Path, durable: bool) -> Iterator[int]:
    """The port of a service of its own."""
    name = f"http-{durable}"
    (directory / f"{name}.toml").write_text(CONFIGURATION.format(dim=DIM, durable=str(durable).lower()))
    command = [sys.executable, "-m", "fedbandits", "agent", "serve", "--port", "0"]
    command += ["--db", str(directory / f"{name}.db"), "--config", str(directory / f"{name}.toml")]
    environment = os.environ | {"FEDBANDITS_AGENT_TOKEN": TOKEN}
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=environment) as process:
        assert process.stderr is not None
        try:
            said = []
            for line in process.stderr:  # on a new machine it first tells that kernels are being compiled
                said.append(line)
                found = re.search(r":([0-9]+)$", line.strip())
                if found is not None:
                    break
            else:
                raise RuntimeError("".join(said))
            yield int(found[1])
        finally:
            process.terminate()


def one_by_one(decide: Callable[[Any], str], reward: Callable[[str], Any], rounds: int) -> dict[str, float]:
    """Medians, in milliseconds."""
    seconds = np.empty((rounds + 20, 2))
    for number in range(len(seconds)):
        began = time.perf_counter()
        decided = decide(MENUS[number % len(MENUS)])
        between = time.perf_counter()
        reward(decided)
        seconds[number] = between - began, time.perf_counter() - between
    decided_in, rewarded_in = 1e3 * np.median(seconds[20:], axis=0)
    return {"decide": float(decided_in), "reward": float(rewarded_in)}


def all_at_once(port: int, rounds: int) -> float:
    """Decisions and rewards per second of many clients."""

    def work(_: int) -> None:
        client = Client(port)
        for number in range(rounds // CLIENTS):
            client.reward(client.decide(MENUS[number % len(MENUS)]))

    began = time.perf_counter()
    with ThreadPoolExecutor(CLIENTS) as pool:
        list(pool.map(work, range(CLIENTS)))
    return 2 * (rounds // CLIENTS) * CLIENTS / (time.perf_counter() - began)


def in_batches(port: int) -> float:
    """Milliseconds of one reward in a batch."""
    client = Client(port)
    told = [{"decision": client.decide(MENUS[number]), "value": 0.3} for number in range(BATCH)]
    began = time.perf_counter()
    client.post("/rewards", {"rewards": told})
    return 1e3 * (time.perf_counter() - began) / BATCH


def measure(directory: Path, durable: bool, rounds: int) -> dict[str, Any]:
    algorithm = fb.algorithms.DisLinUCB(threshold=2.0)
    with Agent.open(directory / f"agent-{durable}.db", algorithm, DIM, durable=durable) as agent:
        embedded = one_by_one(lambda arms: agent.decide(arms).id, lambda name: agent.reward(name, 0.3), rounds)
    with service(directory, durable) as port:
        client = Client(port)
        served = one_by_one(client.decide, client.reward, rounds)
        return {
            "durable": durable,
            "embedded": embedded,
            "served": served,
            "batched": in_batches(port),
            "per_second": all_at_once(port, rounds),
        }


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--json", type=Path, help="write all numbers to this file")
    parser.add_argument("--quick", action="store_true", help="fewer calls")
    parser.add_argument("--directory", type=Path, help="where to put the files; decides what waiting for a disk costs")
    options = parser.parse_args()
    rounds = 200 if options.quick else 2000
    with tempfile.TemporaryDirectory(dir=options.directory) as name:
        entries = [measure(Path(name), durable, rounds) for durable in (False, True)]
    table = Table(title=f"One call, d = {DIM}, K = {ARMS}, in milliseconds (medians)")
    for column in ("durable", "", "decide", "reward", f"reward in batches of {BATCH}", f"calls/s of {CLIENTS} clients"):
        table.add_column(column, justify="right")
    for entry in entries:
        for title in ("embedded", "served"):
            figures = [f"{entry[title][call]:.2f}" for call in ("decide", "reward")]
            more = [f"{entry['batched']:.2f}", f"{entry['per_second']:,.0f}"] if title == "served" else ["", ""]
            table.add_row(str(entry["durable"]), title, *figures, *more)
    Console(width=120).print(table)
    if options.json is not None:
        options.json.write_text(json.dumps(entries, indent=2) + "\n")


if __name__ == "__main__":
    main()
