"""Traffic for a deployed agent: what one agent of a simulated world would meet, at a steady pace.

    python -m fedbandits.deploy.flower.machine.traffic agent-0.db regrets-0.txt '{"name": "linear", "clients": 5}'
        --steps 300

It runs in a process of its own, beside the node, as a product would: it decides and is rewarded through the agent's
file, and never waits for the network. After every decision it writes the pseudo-regret as a line of text.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from fedbandits.contract.catalogue import build
from fedbandits.deploy.embedded.agent import Agent
from fedbandits.deploy.storage.files import private
from fedbandits.environments import ENVIRONMENTS, Environment, World

_BEGIN_SECONDS = 0.02


def world_of(environment: Environment, steps: int, seed: int) -> World:
    """The world that `simulate(..., horizon=steps, seed=seed)` runs in."""
    return environment.world(steps, np.random.SeedSequence(seed).spawn(1)[0])


def environment_of(text: str) -> Environment:
    """An environment from JSON: its name and parameters."""
    told = json.loads(text)
    return build(ENVIRONMENTS, told.pop("name"), told, "environment")


def drive(agent: Agent, world: World, steps: int) -> Iterator[float]:
    """Let the agent live through the turns in which it is awake; yields the pseudo-regret of each."""
    identity = agent.settings.identity
    for step in range(steps):
        turn = world.turn(step)
        for row in np.flatnonzero(turn.who == identity):
            decision = agent.decide(turn.arms[row])
            # noise belongs to the decision of one agent, whatever the others choose
            picks = np.zeros(len(turn.who), dtype=np.int64)
            picks[row] = decision.index
            outcome = world.pay(step, picks)
            agent.reward(decision.id, float(outcome.rewards[row]))
            yield float(outcome.regrets[row])


def main() -> None:
    """Drive one agent."""
    parser = argparse.ArgumentParser(description="Traffic for a deployed agent, from a simulated world.")
    parser.add_argument("agent", type=Path, help="the agent's file")
    parser.add_argument("regrets", type=Path, help="the file to write regrets to")
    parser.add_argument("environment", help="name and parameters of the environment, as JSON")
    parser.add_argument("--steps", type=int, required=True)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--pace", type=float, default=10.0, help="decisions per second")
    parser.add_argument("--begin", type=Path, help="wait until there is a file of this name")
    told = parser.parse_args()
    world = world_of(environment_of(told.environment), told.steps, told.seed)
    while told.begin is not None and not told.begin.exists():
        time.sleep(_BEGIN_SECONDS)
    with Agent.open(told.agent, durable=False) as agent, open(told.regrets, "w", opener=private) as regrets:
        began = time.monotonic()
        for done, regret in enumerate(drive(agent, world, told.steps), start=1):
            print(regret, file=regrets, flush=True)
            time.sleep(max(0.0, began + done / told.pace - time.monotonic()))


if __name__ == "__main__":
    main()
