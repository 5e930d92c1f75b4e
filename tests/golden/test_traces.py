"""Runs of earlier versions, repeated: every decision, every message and every byte is what it was.

`traces-0.1.0.jsonl` holds, line by line, a run at small size of every experiment and algorithm of that version, and
what came of it: final figures, and a digest of regret, reward, ledger, synchronisations, regret by client and privacy
spent at every step. Digests are of floating point numbers, in which libraries have a say: they are asked for on
processors on which they are known to agree, which the file names; elsewhere regret may differ by a rounding, the rest
may not. What was changed on purpose since is stated in the changelog: runs whose noise or schedule is another one are
not in the file, those whose accounting alone is have no digest, and FCLUB-DC has its constants of then.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import llvmlite.binding
import networkx as nx
import numpy as np
import pytest

import fedbandits as fb

FILE = Path(__file__).with_name("traces-0.1.0.jsonl")
HEAD, *RUNS = (json.loads(line) for line in FILE.read_text(encoding="utf-8").splitlines())
REAL = {"lastfm", "movielens", "facebook", "gnutella"}
REDUCED = {"lastfm", "movielens"}
"""Data whose features BLAS computes: their last bits are the processor's, and decide between arms that are as good."""
DIGESTED = ("regret", "reward", "counts", "syncs", "regret_by_client", "epsilon")


def groups() -> Iterator[Any]:
    """The runs of one experiment, or of one algorithm, together."""
    names = dict.fromkeys("/".join(run["key"].split("/")[:2]) for run in RUNS)
    for name in names:
        yield pytest.param([run for run in RUNS if run["key"].startswith(f"{name}/")], id=name)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("runs", list(groups()))
def test_runs_are_what_they_were(runs: list[dict[str, Any]]) -> None:
    used = {run[part]["name"] for run in runs for part in ("environment", "network") if part in run}
    if used & REAL and "FEDBANDITS_DATA" not in os.environ:
        pytest.skip("FEDBANDITS_DATA is not set: these runs need the real data")
    known = llvmlite.binding.get_host_cpu_name() in HEAD["processors"]
    if used & REDUCED and not known:
        pytest.skip("features of these data were computed on another kind of processor")
    for run in runs:
        was, now = dict(run["found"]), outcome(run)
        if not known:
            was.pop("digest", None)
            assert float(now.pop("regret")) == pytest.approx(float(was.pop("regret")), rel=1e-9), run["key"]
        assert {name: now[name] for name in was} == was, run["key"]


def outcome(run: dict[str, Any]) -> dict[str, Any]:
    """What comes of a run today."""
    network = built(fb.network.NETWORKS, run["network"]) if "network" in run else None
    if "ring" in run:
        network = fb.network.Given.of(nx.cycle_graph(run["environment"]["clients"]), **run["ring"])
    # not `simulate`, which refuses a network to those who do not talk on it: experiments compare them with others
    simulation = fb.Simulation(
        built(fb.algorithms.ALGORITHMS, run["algorithm"]),
        built(fb.environments.ENVIRONMENTS, run["environment"]),
        run["horizon"],
        network=network,
        wire=fb.Wire(packed=True) if run.get("packed") else None,
        theory=run.get("theory", False),
    )
    simulation.run()
    trace = simulation.trace()
    return {
        "regret": repr(float(trace.regret[-1])),
        "syncs": int(trace.syncs[-1]),
        "messages": int(trace.messages[-1]),
        "bytes": int(trace.bytes[-1]),
        "digest": hashlib.sha256("".join(digest(getattr(trace, name)) for name in DIGESTED).encode()).hexdigest()[:16],
    }


def built(registry: Any, part: dict[str, Any]) -> Any:
    parameters = {name: tuple(value) if isinstance(value, list) else value for name, value in part.items()}
    return registry[parameters.pop("name")](**parameters)


def digest(values: Any) -> str:
    array = np.ascontiguousarray(values)
    return hashlib.sha256(f"{array.dtype.str}{array.shape}".encode() + array.tobytes()).hexdigest()
