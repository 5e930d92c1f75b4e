"""The armed family: the same K arms at every turn, and every single choice rests on the samples that have arrived.

The sample sets follow from the history of the run by hop distances alone; means and widths by their definitions. An
optimistic algorithm of the family that has no entry in `ACTING` is refused rather than skipped.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache
from typing import Any

import networkx as nx
import numpy as np

from conformance.batch_means import MEANS
from conformance.family import Family, Trial
from conformance.subjects import CLIENTS, home, network_of, population, problem_of, talkative
from fedbandits.algorithms.armed.agents import IndexAgents
from fedbandits.algorithms.armed.estimators import Estimation
from fedbandits.algorithms.armed.rcl import CooperativeUCB
from fedbandits.contract.facts import Place
from fedbandits.contract.problem import Problem
from fedbandits.graphs.leaders import leadership
from fedbandits.testing.recording import recorded

HORIZON = 60
SUBGAUSSIAN = {"raw": 1.0, "central": 0.25, "order": 2.0}
Beliefs = tuple[np.ndarray, np.ndarray]
"""(K,) estimates and sample counts."""


class History:
    """What everybody did, and who is how far from whom."""

    def __init__(self, algorithm: Any, problem: Problem) -> None:
        self.problem = problem
        self.place = problem.get(Place)
        self.estimation = algorithm.estimation(problem) if isinstance(algorithm, CooperativeUCB) else algorithm
        self.distance = dict(nx.all_pairs_shortest_path_length(self.place.graph)) if self.place else {}
        self.picks: list[np.ndarray] = []
        self.rewards: list[np.ndarray] = []
        self._arrived: dict[tuple[int, int], list[list[list[float]]]] = {}
        self._beliefs: dict[tuple[int, int, int], Beliefs] = {}
        self.width = cache(self._width)

    def near(self, agent: int) -> list[tuple[int, int]]:
        """Hops and name of everybody within reach."""
        reach = self.place.hops if self.place else 0
        return sorted((hops, other) for other, hops in self.distance.get(agent, {}).items() if 1 <= hops <= reach)

    def samples(self, agent: int, step: int, wait: int = 1) -> list[list[float]]:
        """By arm, in the order of arrival: what `agent` may use in `step`, counting messages from age `wait` on."""
        known = self._arrived.setdefault((agent, wait), [[[] for _ in range(self.problem.arms)]])
        while len(known) <= step:  # known[s] is what had arrived before step s
            end = len(known) - 1
            found = [list(samples) for samples in known[-1]]
            found[self.picks[end][agent]].append(self.rewards[end][agent])
            heard = [(-(end + 1 - max(hops, wait)), other) for hops, other in self.near(agent)]
            for born, other in sorted(heard):
                if born <= 0:
                    found[self.picks[-born][other]].append(self.rewards[-born][other])
            known.append(found)
        return known[step]

    def beliefs(self, agent: int, step: int, wait: int = 1) -> Beliefs:
        """(K,) estimates and sample counts in the decision of `step`."""
        key = (agent, step, wait)
        if key not in self._beliefs:
            rows = [np.array(x) for x in self.samples(agent, step, wait)]
            mean = MEANS[self.estimation.mean]
            estimates = [mean(x, step + 1, self.estimation, self.problem)[0] if len(x) else 0.0 for x in rows]
            self._beliefs[key] = np.array(estimates, dtype=float), np.array([len(x) for x in rows])
        estimates, counts = self._beliefs[key]
        return estimates.copy(), counts.copy()

    def widths(self, counts: np.ndarray, step: int) -> np.ndarray:
        return self.estimation.scale * np.array([self.width(int(count), step) for count in counts])

    def _width(self, count: int, step: int) -> float:
        mean = MEANS[self.estimation.mean]
        return mean(np.zeros(count), step + 1, self.estimation, self.problem)[1] if count else np.inf


def all_it_heard(history: History, agent: int, step: int, wait: int = 1) -> np.ndarray:
    estimates, counts = history.beliefs(agent, step, wait)
    return estimates + history.widths(counts, step)


def the_best_informed(history: History, agent: int, step: int) -> np.ndarray:
    estimates, counts = history.beliefs(agent, step)
    born = np.full(len(counts), step)
    for hops, other in history.near(agent):
        if step - hops >= 0:
            theirs, sizes = history.beliefs(other, step - hops)
            better = sizes > counts
            estimates[better], counts[better], born[better] = theirs[better], sizes[better], step - hops
    return estimates + history.widths(counts, step)


def its_leader(history: History, agent: int, step: int) -> np.ndarray:
    led = leadership(history.place.graph, history.place.hops)
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


def choices(name: str) -> Iterator[Trial]:
    """Every way to estimate a mean, for those who act on an estimate and a width."""
    algorithm = talkative(name)
    if not isinstance(population(name, problem_of(name)), IndexAgents):
        return
    if not isinstance(algorithm, Estimation):
        yield "empirical", lambda: every_choice(name, algorithm)
        return
    for mean in MEANS:
        tuned = talkative(name, mean=mean, scale=0.3, **SUBGAUSSIAN)
        yield mean, lambda algorithm=tuned: every_choice(name, algorithm)


def every_choice(name: str, algorithm: Any) -> None:
    """Every choice follows from what has arrived by then."""
    problem = problem_of(name, HORIZON)
    history = History(algorithm, problem)
    judged = 0
    for event in recorded(algorithm, home(name), HORIZON, network=network_of(name)):
        if event.step < problem.arms:
            np.testing.assert_array_equal(event.picks, event.step)
        else:
            for agent in range(CLIENTS):
                index = ACTING[name](history, agent, event.step)
                best = np.sort(index)[-2:]
                if best[1] - best[0] > 1e-9:
                    assert event.picks[agent] == index.argmax()
                    judged += 1
        history.picks.append(event.picks)
        history.rewards.append(event.rewards)
    assert judged > HORIZON


_SIZES = {"clients": CLIENTS, "arms": 7}
FAMILY = Family(
    small={"bernoulli": _SIZES, "gaussian": _SIZES, "stable": _SIZES},
    talkative={
        "private-fed-ucb": {"schedule": 1.0},
        "dp-ucb-int": {"schedule": 1.0},
        "charm": {"lambda_scale": 0.05},
    },
    choices=choices,
)
