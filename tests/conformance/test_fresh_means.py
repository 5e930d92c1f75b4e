"""The armed family: every single choice rests on exactly the samples that have reached the agent by then.

The sample sets follow from the history of the run by hop distances alone; means and widths by their definitions. An
optimistic algorithm of the family that has no entry in `ACTING` is refused rather than skipped.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import networkx as nx
import numpy as np
import pytest

from conformance.batch_means import MEANS
from conformance.subjects import CLIENTS, NAMES, TTL, about, home, network_of, problem_of, talkative
from conformance.worlds import recorded
from fedbandits.algorithms.armed.agents import OptimisticAgents
from fedbandits.algorithms.armed.estimators import Estimation
from fedbandits.algorithms.armed.rcl import CooperativeUCB
from fedbandits.contract.streams import Streams
from fedbandits.graphs.leaders import leadership

HORIZON = 60
SUBGAUSSIAN = {"raw": 1.0, "central": 0.25, "order": 2.0}
OPTIMISTS = [
    name
    for name in NAMES
    if about(name).family == "armed"
    and isinstance(
        talkative(name).agents(problem_of(name), CLIENTS, Streams(np.random.SeedSequence(0), CLIENTS)), OptimisticAgents
    )
]


class History:
    """What everybody did, and who is how far from whom."""

    def __init__(self, algorithm: Any, problem: Any) -> None:
        self.problem = problem
        self.estimation = algorithm.estimation(problem) if isinstance(algorithm, CooperativeUCB) else algorithm
        self.distance = dict(nx.all_pairs_shortest_path_length(problem.network)) if problem.network else {}
        self.picks: list[np.ndarray] = []
        self.rewards: list[np.ndarray] = []

    def samples(self, agent: int, step: int, wait: int = 1) -> list[list[float]]:
        """By arm, in the order of arrival: what `agent` may use in `step`, counting messages from age `wait` on."""
        found: list[list[float]] = [[] for _ in range(self.problem.arms)]
        for end in range(step):
            found[self.picks[end][agent]].append(self.rewards[end][agent])
            heard = [
                (-born, other)
                for other, hops in self.distance.get(agent, {}).items()
                for born in range(end + 1)
                if 1 <= hops <= self.problem.ttl and born + max(hops, wait) - 1 == end
            ]
            for born, other in sorted(heard):
                found[self.picks[-born][other]].append(self.rewards[-born][other])
        return found

    def beliefs(self, agent: int, step: int, wait: int = 1) -> tuple[np.ndarray, np.ndarray]:
        """(K,) estimates and sample counts in the decision of `step`."""
        rows = [np.array(x) for x in self.samples(agent, step, wait)]
        mean = MEANS[self.estimation.mean]
        estimates = [mean(x, step + 1, self.estimation, self.problem)[0] if len(x) else 0.0 for x in rows]
        return np.array(estimates, dtype=float), np.array([len(x) for x in rows])

    def widths(self, counts: np.ndarray, step: int) -> np.ndarray:
        mean = MEANS[self.estimation.mean]
        return self.estimation.scale * np.array(
            [mean(np.zeros(c), step + 1, self.estimation, self.problem)[1] if c else np.inf for c in counts]
        )


def all_it_heard(history: History, agent: int, step: int, wait: int = 1) -> np.ndarray:
    estimates, counts = history.beliefs(agent, step, wait)
    return estimates + history.widths(counts, step)


def the_best_informed(history: History, agent: int, step: int) -> np.ndarray:
    estimates, counts = history.beliefs(agent, step)
    born = np.full(len(counts), step)
    near = [(hops, other) for other, hops in history.distance[agent].items() if 1 <= hops <= history.problem.ttl]
    for hops, other in sorted(near):
        if step - hops >= 0:
            theirs, sizes = history.beliefs(other, step - hops)
            better = sizes > counts
            estimates[better], counts[better], born[better] = theirs[better], sizes[better], step - hops
    return estimates + history.widths(counts, step)


def its_leader(history: History, agent: int, step: int) -> np.ndarray:
    led = leadership(history.problem.network, history.problem.ttl)
    behind = step - int(led.distance[agent])
    if led.leader[agent] == agent or behind < 0:
        return all_it_heard(history, agent, step)
    return np.where(np.arange(history.problem.arms) == history.picks[behind][led.leader[agent]], 1.0, 0.0)


ACTING: dict[str, Callable[[History, int, int], np.ndarray]] = {
    "ucb1": all_it_heard,
    "robust-ucb": all_it_heard,
    "fed-ucb1": all_it_heard,
    "robust-fed-ucb": all_it_heard,
    "rcl-sd": all_it_heard,
    "rcl-lf": all_it_heard,  # on a ring all degrees are equal, so that nothing is dropped
    "mp-ucb-delayed": lambda history, agent, step: all_it_heard(history, agent, step, wait=2),
    "fed-ucb1-best": the_best_informed,
    "robust-fed-ucb-best": the_best_informed,
    "cent-ucb1": its_leader,
    "robust-cent-ucb": its_leader,
}


def means_of(name: str) -> list[str]:
    return list(MEANS) if issubclass(type(talkative(name)), Estimation) else ["empirical"]


@pytest.mark.parametrize(("name", "mean"), [(name, mean) for name in OPTIMISTS for mean in means_of(name)])
def test_every_choice_follows_from_what_has_arrived(name, mean):
    parameters = {"mean": mean, "scale": 0.3} | SUBGAUSSIAN if issubclass(type(talkative(name)), Estimation) else {}
    algorithm = talkative(name, **parameters)
    problem = problem_of(name, HORIZON)
    history = History(algorithm, problem)
    judged = 0
    for event in recorded(algorithm, home(name), HORIZON, network=network_of(name)):
        history.picks.append(event.picks)
        history.rewards.append(event.rewards)
        if event.step < problem.arms:
            np.testing.assert_array_equal(event.picks, event.step)
            continue
        for agent in range(CLIENTS):
            index = ACTING[name](history, agent, event.step)
            best = np.sort(index)[-2:]
            if best[1] - best[0] > 1e-9:
                assert event.picks[agent] == index.argmax()
                judged += 1
    assert judged > HORIZON


def test_the_ring_is_wide_enough():
    """Guards the test above: some agents must be out of reach, or distances would not matter."""
    assert CLIENTS // 2 > TTL
