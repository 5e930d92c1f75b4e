"""Decisions over common candidates: `python -m benchmarks.nonlinear [--json FILE] [--quick]`.

Processor time of a decision of Fed-GO-UCB in phase II, choosing and learning, by beliefs about the candidates and by a
straightforward implementation with matrices of the model's dimension p (a solve for each choice, as the text has it),
for growing numbers of candidates and of parameters. One thread; compilation is not timed.
"""

from __future__ import annotations

import time
from collections.abc import Iterator

import numpy as np
from rich.console import Console
from rich.table import Table

from benchmarks.command import keep, parser
from fedbandits.algorithms.nonlinear.candidate_agents import CandidateAgents
from fedbandits.algorithms.nonlinear.languages import InTallies, Prior
from fedbandits.contract.arrays import FloatArray
from fedbandits.models.candidates import linear_prior
from fedbandits.models.differentiable import Sigmoid

AGENTS, DIM, WIDTH = 20, 8, 1.4


def by_beliefs(points: FloatArray, w: FloatArray, model: Sigmoid, turns: int) -> float:
    """Seconds for each decision of a population."""
    features = model.gradients(w, points)
    prior = Prior(linear_prior(model.values(w, points), features, 1.0), features)
    agents = CandidateAgents(points, AGENTS, len(w), lambda _: prior, InTallies(), width=WIDTH, trigger=None, keep=True)
    who, rng = np.arange(AGENTS), np.random.default_rng(0)
    agents.begin(who, np.broadcast_to(w, (AGENTS, len(w))))
    arms = np.broadcast_to(points, (AGENTS, *points.shape))
    agents.learn(who, arms, agents.choose(who, arms), rng.standard_normal(AGENTS))
    rewards = rng.standard_normal((turns, AGENTS))
    began = time.process_time()
    for turn in range(turns):
        agents.learn(who, arms, agents.choose(who, arms), rewards[turn])
    return (time.process_time() - began) / (turns * AGENTS)


def by_matrices(points: FloatArray, w: FloatArray, model: Sigmoid, turns: int) -> float:
    """Seconds for each decision of one agent, with V and b as the text has them."""
    f, g = model.values(w, points), model.gradients(w, points)
    V, r, rng = np.eye(len(w)), np.zeros(len(w)), np.random.default_rng(0)
    began = time.process_time()
    for _ in range(turns):
        solved = np.linalg.solve(V, np.column_stack([r, g.T]))
        widths = WIDTH * np.sqrt(np.einsum("kp,pk->k", g, solved[:, 1:]))
        x = int((f + g @ solved[:, 0] + widths).argmax())
        V += np.outer(g[x], g[x])
        r += g[x] * (rng.standard_normal() - f[x])
    return (time.process_time() - began) / turns


def measured(turns: int) -> Iterator[dict[str, float]]:
    """An entry for every number of candidates and of parameters."""
    for size, width in ((50, 25), (200, 25), (500, 25), (50, 10), (50, 50), (50, 100)):
        model, rng = Sigmoid(width=width), np.random.default_rng(1)
        points, w = rng.uniform(-1, 1, (size, DIM)), 2 * rng.standard_normal(model.parameters(DIM))
        fast, slow = by_beliefs(points, w, model, turns), by_matrices(points, w, model, turns // 5)
        sizes = {"candidates": size, "parameters": len(w)}
        yield sizes | {"beliefs": 1e6 * fast, "matrices": 1e6 * slow, "ratio": slow / fast}


def main() -> None:
    """Print a row for each."""
    options = parser(__doc__, "fewer turns").parse_args()
    report = list(measured(20 if options.quick else 100))
    table = Table("candidates", "p", "beliefs, µs", "matrices, µs", "times")
    for entry in report:
        table.add_row(*(f"{value:.1f}" if name == "beliefs" else f"{value:.0f}" for name, value in entry.items()))
    Console().print(table)
    keep(report, options.json)


if __name__ == "__main__":
    main()
