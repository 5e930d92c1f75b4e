"""A life that is led in one go, and by processes of which each is killed in the middle."""

from __future__ import annotations

import os
import random
import signal
import time
from pathlib import Path
from typing import IO, Any

from flower_worlds import open_agent
from forks import forked

from fedbandits.contract.arrays import State
from fedbandits.deploy import Agent
from fedbandits.deploy.settings import Settings


class Life:
    """What was done with an agent, in order: its decisions, rewards, and letters."""

    def __init__(self, agent: Agent) -> None:
        self.done: list[tuple[Any, ...]] = []
        real_decide, real_reward, real_answer = agent.decide, agent.reward, agent.answer

        def decide(arms: Any) -> Any:
            self.done.append(("decide", arms))
            return real_decide(arms)

        def reward(decision: str, value: float) -> bool:
            self.done.append(("reward", value))
            return real_reward(decision, value)

        def answer(text: bytes, conversation: str, turn: int, verdicts: Any = None) -> bytes | None:
            reply = real_answer(text, conversation, turn, verdicts)
            self.done.append(("answer", text, conversation, turn, verdicts, reply))
            return reply

        agent.decide, agent.reward, agent.answer = decide, reward, answer  # type: ignore[method-assign,assignment]


def go_on(agent: Agent, life: list[tuple[Any, ...]], told: IO[str] | None = None) -> None:
    """Do what is left of a life, telling of each thing once it is done."""
    status = agent.status()
    for number in range(status.decisions + status.rewards + status.letters, len(life)):
        what, *rest = life[number]
        if what == "decide":
            agent.decide(rest[0])
        elif what == "reward":
            agent.reward([one.decision for one in agent.log() if one.reward is None][-1], rest[0])
        else:
            assert agent.answer(*rest[:4]) == rest[4]
        if told is not None:
            told.write(f"{number}\n")
            told.flush()


def assert_the_same_when_killed(
    path: Path, settings: Settings, life: list[tuple[Any, ...]], state: State, times: int = 12
) -> None:
    """Led by so many processes that are killed, a life ends in the same `state` to the last bit, with every answer that
    was given.
    """
    chance, heard = random.Random(0), -1

    def open_it() -> Agent:
        return open_agent(path, settings, 0, snapshot_every=7)

    def lead(out: IO[str]) -> None:
        go_on(open_it(), life, out)

    for _ in range(times):
        pid, out = forked(lead)
        limit = heard + 1 + chance.randrange(1 + len(life) // 10)
        while heard < limit and (line := out.readline()):
            heard = int(line)
        time.sleep(chance.random() * 0.004)
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        heard = max([heard, *(int(line) for line in out if line.endswith("\n"))])
        out.close()
    with open_it() as agent:
        status = agent.status()
        assert heard < status.decisions + status.rewards + status.letters
        go_on(agent, life)
        found = agent.state()
    assert found.keys() == state.keys()
    for part, array in state.items():
        assert found[part].tobytes() == array.tobytes(), part
