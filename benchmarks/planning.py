"""Planning: populations against a plain loop over agents, stages and transitions; and one agent on RiverSwim.

    python -m benchmarks.planning [--json FILE]

The loop is LSVI-UCB as it is written: per agent, per stage, inverses by rank-one updates, all targets anew after every
episode, one value for each state that was seen. Both get the same turns, in CPU seconds of one process.
"""

from __future__ import annotations

import time
from typing import Any

import numpy as np

import fedbandits as fb
from benchmarks.command import keep, parser

RIVERS = ((6, 20), (10, 20), (15, 40))
"""States and H."""
BASE = {"clients": 50, "length": 10, "dim": 20, "arms": 4, "states": 50}
BETA = 1.0


class LoopAgent:
    """One agent, in plain numpy."""

    def __init__(self, dim: int, length: int) -> None:
        self.length = length
        self.inverse = [np.eye(dim) for _ in range(length)]
        self.w = [np.zeros(dim) for _ in range(length)]
        self.data: list[list[tuple[np.ndarray, float, bytes | None]]] = [[] for _ in range(length)]
        self.views: dict[bytes, np.ndarray] = {}
        self.trail: list[tuple[np.ndarray, bytes, float]] = []

    def choose(self, arms: np.ndarray) -> int:
        """The optimistic arm."""
        return int(self.index(len(self.trail), arms).argmax())

    def index(self, h: int, arms: np.ndarray) -> np.ndarray:
        """The index of every arm."""
        norms = np.einsum("kd,de,ke->k", arms, self.inverse[h], arms)
        return np.asarray(arms @ self.w[h] + BETA * np.sqrt(norms))

    def learn(self, arms: np.ndarray, pick: int, reward: float) -> None:
        """One stage."""
        key = arms.tobytes()
        self.views.setdefault(key, arms)
        self.trail.append((arms[pick], key, reward))
        if len(self.trail) < self.length:
            return
        for h, (phi, _, paid) in enumerate(self.trail):
            after = self.trail[h + 1][1] if h + 1 < self.length else None
            self.data[h].append((phi, paid, after))
            moved = self.inverse[h] @ phi
            self.inverse[h] -= np.outer(moved, moved) / (1 + phi @ moved)
        self.trail = []
        for h in reversed(range(self.length)):
            values: dict[bytes, float] = {}
            u = np.zeros(len(self.w[h]))
            for phi, paid, seen in self.data[h]:
                target = paid
                if seen is not None:
                    if seen not in values:
                        best = float(self.index(h + 1, self.views[seen]).max())
                        values[seen] = min(best, self.length - h - 1)
                    target += values[seen]
                u += target * phi
            self.w[h] = self.inverse[h] @ u


def loop(environment: Any, steps: int) -> tuple[float, float]:
    """CPU seconds of the plain loop, and its regret."""
    world = environment.world(steps, np.random.SeedSequence(0).spawn(6)[0])
    problem = world.problem
    agents = [LoopAgent(problem.dim, environment.length) for _ in range(problem.agents)]
    began, regret = time.process_time(), 0.0
    for step in range(steps):
        turn = world.turn(step)
        arms = np.ascontiguousarray(turn.arms)
        picks = np.array([agent.choose(arms[i]) for i, agent in enumerate(agents)])
        outcome = world.pay(step, picks)
        for i, agent in enumerate(agents):
            agent.learn(arms[i], picks[i], outcome.rewards[i])
        regret += outcome.regrets.sum()
    return time.process_time() - began, regret


def ours(environment: Any, steps: int, algorithm: str = "lsvi-ucb", times: int = 3) -> tuple[float, float]:
    """CPU seconds of a simulation, the best of several, and its regret."""
    seconds = np.inf
    for _ in range(times):
        run = fb.Simulation(f"{algorithm}:width={BETA}", environment, steps, seed=0)
        run.compiled = True
        began = time.process_time()
        run.run()
        seconds = min(seconds, time.process_time() - began)
    return seconds, float(run.trace().regret[-1])


def measured() -> dict[str, Any]:
    """Everything, as numbers."""
    for name in ("lsvi-ucb", "fedlsvi-dense", "fedlsvi-rare"):  # compiled beforehand
        ours(fb.environments.LinearMDP(clients=2, length=3), 12, name)
    environment = fb.environments.LinearMDP(**BASE)
    steps = 30 * BASE["length"]
    (fast, here), (slow, there) = ours(environment, steps, times=10), min(loop(environment, steps) for _ in range(2))
    against = {"loop": slow, "ours": fast, "ratio": slow / fast, "regret of the loop": there, "regret of ours": here}
    rivers = []
    for states, length in RIVERS:
        alone, _ = ours(fb.environments.RiverSwim(clients=1, states=states, length=length), 200 * length)
        many, _ = ours(fb.environments.RiverSwim(clients=100, states=states, length=length), 20 * length)
        rates = {"alone": 200 * length / alone, "many": 2000 * length / many}
        rivers.append({"states": states, "length": length} | rates)
    grows = []
    for field, values in {"clients": (10, 100), "length": (5, 20), "dim": (10, 40), "arms": (2, 8)}.items():
        for value in values:
            sizes = BASE | {field: value}
            seconds, _ = ours(fb.environments.LinearMDP(**sizes), 30 * sizes["length"])
            each = 1e6 * seconds / (30 * sizes["length"] * sizes["clients"])
            grows.append({"what": field, "value": value, "microseconds": each})
    longer = []
    for episodes in (30, 300):
        for name in ("lsvi-ucb", "fedlsvi-rare"):
            seconds, _ = ours(fb.environments.LinearMDP(**(BASE | {"clients": 10})), 10 * episodes, name)
            each = 1e6 * seconds / (100 * episodes)
            longer.append({"algorithm": name, "episodes": episodes, "microseconds": each})
    return {"against the loop": against, "rivers": rivers, "growth": grows, "episodes": longer}


def main() -> None:
    """Print all of it."""
    options = parser(__doc__, "no shorter: all of it takes half a minute").parse_args()
    report = measured()
    against = report["against the loop"]
    print(f"M=50 H=10 d=20, 30 episodes: loop {against['loop']:.2f} s, ours {against['ours']:.3f} s,", end=" ")
    print(f"{against['ratio']:.0f} times; regret {against['regret of the loop']:.1f}, {against['regret of ours']:.1f}")
    for river in report["rivers"]:
        print(f"RiverSwim S={river['states']} H={river['length']}: decisions per CPU second:", end=" ")
        print(f"{river['alone']:,.0f} of one agent, {river['many']:,.0f} of 100")
    for entry in report["growth"]:
        print(f"{entry['what']}={entry['value']}: {entry['microseconds']:.1f} µs per decision")
    for entry in report["episodes"]:
        print(f"{entry['algorithm']}, {entry['episodes']} episodes of 10 agents:", end=" ")
        print(f"{entry['microseconds']:.1f} µs per decision")
    keep(report, options.json)


if __name__ == "__main__":
    main()
