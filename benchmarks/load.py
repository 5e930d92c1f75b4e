"""How much one service and one SuperLink can bear: `python -m benchmarks.load [--quick] [--json FILE] [--write PAGE]`.

First an agent over HTTP: requests per second and how long they take, with 1 and with 50 clients that ask without pause,
each on a connection of its own. Then a SuperLink with TLS and the gate, the server, and 50, 100, 200 nodes: how long a
ring and a synchronisation of DisLinUCB take, and what the SuperLink needs. Nodes are threads of one process that speak
Flower's fleet interface, each with an agent, a key and a connection of its own, and look for messages every `--poll`
seconds. Everything runs on this machine: with two cores, clients and nodes take their share of them.

`--write` puts the tables into a page, between its marks `<!-- load -->` and `<!-- /load -->`. Needs the extra `deploy`.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import re
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.agent_http import ARMS, DIM, MENUS, TOKEN, service
from benchmarks.load_nodes import federation_under_load

CLIENTS = (1, 50)
NODES = (50, 100, 200)
MARKS = ("<!-- load -->", "<!-- /load -->")


class Connection:
    """One client: a connection that is kept, and requests that are written in advance."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer

    @classmethod
    async def open(cls, port: int) -> Connection:
        return cls(*await asyncio.open_connection("127.0.0.1", port))

    async def post(self, path: str, body: bytes) -> bytes:
        head = f"POST {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {TOKEN}\r\n"
        head += f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
        self._writer.write(head.encode() + body)
        answer = await self._reader.readuntil(b"\r\n\r\n")
        (length,) = re.findall(rb"content-length: ([0-9]+)", answer.lower())
        content = await self._reader.readexactly(int(length))
        if not answer.startswith(b"HTTP/1.1 200"):
            raise RuntimeError(content)
        return content


async def hammer(port: int, clients: int, seconds: float) -> dict[str, Any]:
    """Requests per second, and percentiles of how long they took in milliseconds, of clients that never pause."""
    bodies = [json.dumps({"arms": menu}).encode() for menu in MENUS]
    took: dict[str, list[float]] = {"/decisions": [], "/rewards": []}
    connections = [await Connection.open(port) for _ in range(clients)]
    until = time.perf_counter() + seconds

    async def timed(connection: Connection, path: str, body: bytes) -> bytes:
        began = time.perf_counter()
        content = await connection.post(path, body)
        took[path].append(time.perf_counter() - began)
        return content

    async def work(number: int, connection: Connection) -> None:
        while time.perf_counter() < until:
            number += 1
            decided = await timed(connection, "/decisions", bodies[number % len(bodies)])
            name = json.loads(decided)["id"]
            await timed(connection, "/rewards", json.dumps({"decision": name, "value": 0.3}).encode())

    began = time.perf_counter()
    await asyncio.gather(*(work(number, connection) for number, connection in enumerate(connections)))
    passed = time.perf_counter() - began
    return {
        "clients": clients,
        "requests_per_second": sum(map(len, took.values())) / passed,
        **{
            path.removeprefix("/"): {
                "median_ms": float(1e3 * np.median(seconds)),
                "p99_ms": float(1e3 * np.percentile(seconds, 99)),
            }
            for path, seconds in took.items()
        },
    }


def measure_http(directory: Path, seconds: float) -> list[dict[str, Any]]:
    """An agent's service, without and with waiting for the disk."""
    found = []
    for durable in (False, True):
        with service(directory, durable) as port:
            asyncio.run(hammer(port, 1, min(2.0, seconds)))  # warm
            found += [{"durable": durable, **asyncio.run(hammer(port, clients, seconds))} for clients in CLIENTS]
    return found


def tables(report: dict[str, Any]) -> str:
    """The report in Markdown."""
    lines = [
        f"An agent over HTTP (`fedbandits agent serve`, d = {DIM}, K = {ARMS}), clients that never pause:",
        "",
        "| waits for the disk | clients | requests per second | decision: median, 99 % | reward: median, 99 % |",
        "|---|---|---|---|---|",
    ]
    for row in report["http"]:
        times = [f"{row[kind]['median_ms']:.1f} ms, {row[kind]['p99_ms']:.1f} ms" for kind in ("decisions", "rewards")]
        waits = "yes" if row["durable"] else "no"
        lines.append(f"| {waits} | {row['clients']} | {row['requests_per_second']:,.0f} | {times[0]} | {times[1]} |")
    lines += [
        "",
        f"Nodes at one SuperLink that look for messages every {report['poll_seconds']:g} s; a synchronisation of "
        "DisLinUCB with everybody takes three round trips:",
        "",
        "| nodes | all are there after | ring | synchronisation | took part | SuperLink: memory, of a core |",
        "|---|---|---|---|---|---|",
    ]
    for row in report["nodes"]:
        if "failed" in row:
            lines.append(f"| {row['nodes']} | {row['failed']} | | | | |")
            continue
        lines.append(
            f"| {row['nodes']} | {row['gathered_seconds']:.0f} s | {row['ring_seconds']:.1f} s "
            f"| {row['synchronisation_seconds']:.1f} s | {row['took_part']:.0%} "
            f"| {row['superlink_bytes'] / 1e6:.0f} MB, {row['superlink_cores']:.0%} |"
        )
    return "\n".join(lines)


def write_into(page: Path, text: str) -> None:
    """Put `text` between the marks of a page."""
    begin, end = MARKS
    before, _, rest = page.read_text(encoding="utf-8").partition(begin)
    _, found, after = rest.partition(end)
    if not found:
        raise SystemExit(f"{page} has no marks {begin} and {end}")
    page.write_text(f"{before}{begin}\n{text}\n{end}{after}", encoding="utf-8")


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--json", type=Path, help="write all numbers to this file")
    parser.add_argument("--write", type=Path, help="put the tables into this page, between its marks")
    parser.add_argument("--quick", action="store_true", help="seconds instead of minutes, and few nodes")
    parser.add_argument("--nodes", type=int, nargs="*", default=None, help="how many nodes to try; none: no federation")
    parser.add_argument("--poll", type=float, default=1.0, help="seconds between two looks of a node for messages")
    parser.add_argument("--directory", type=Path, help="where to put the files; decides what waiting for a disk costs")
    options = parser.parse_args()
    wanted = options.nodes if options.nodes is not None else (5,) if options.quick else NODES
    seconds = 2.0 if options.quick else 20.0
    report: dict[str, Any] = {"cores": os.cpu_count(), "poll_seconds": options.poll}
    with tempfile.TemporaryDirectory(dir=options.directory) as name:
        report["http"] = measure_http(Path(name), seconds)
        report["nodes"] = []
        for nodes in wanted:
            print(f"{nodes} nodes ...", file=sys.stderr, flush=True)
            where = Path(name) / f"federation-{nodes}"
            report["nodes"].append(federation_under_load(where, nodes, options.poll, synchronisations=2))
    text = tables(report)
    print(text)
    if options.json is not None:
        options.json.write_text(json.dumps(report, indent=2) + "\n")
    if options.write is not None:
        write_into(options.write, text)


if __name__ == "__main__":
    main()
