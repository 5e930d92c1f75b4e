"""No agent acts on a stale estimate after it has heard something: its index is recomputed with numpy and nothing else.

A family says, for each class of agents, what an agent should act on, given its statistics and what it was told.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np

from conformance.family import Trial
from conformance.subjects import HORIZON, about, confident, home, network_of, talkative
from fedbandits.contract.arrays import FloatArray
from fedbandits.contract.facts import Candidates, Noise, Norms
from fedbandits.contract.messages import Message
from fedbandits.contract.problem import Problem
from fedbandits.contract.streams import seeds_of
from fedbandits.simulation.loop import posed
from fedbandits.testing.recording import recorded

Downloads = dict[int, Message]
"""For each agent the last message it was sent by the server, as a batch of one."""
Indices = Callable[[FloatArray], FloatArray]
"""Arms (n, K, d) -> (n, K): the index that every agent should give every arm; NaN for one that plays at random."""
Acting = Mapping[type, Callable[[Any, Any, Problem, Downloads], Indices]]
"""By class of agents, subclasses first: agents, algorithm, problem and downloads -> indices."""


def noise_of(problem: Problem) -> float:
    """sigma."""
    return problem.get(Noise, Noise()).sigma


def bound_of(problem: Problem) -> float:
    """S, the bound on the norm of the parameter."""
    return problem.get(Norms, Norms()).parameter


def width_of(algorithm: Any, problem: Problem, V: FloatArray, count: FloatArray) -> FloatArray:
    """(n,) the width, by its formula."""
    d = V.shape[1]
    if algorithm.width == "theory":
        volume = np.linalg.slogdet(V)[1] - d * np.log(algorithm.ridge)
    elif algorithm.width == "loose":
        volume = d * np.log(1 + count / (d * algorithm.ridge))
    else:
        return np.full(len(V), algorithm.width)
    spread = noise_of(problem) * np.sqrt(2 * np.log(1 / algorithm.delta) + volume)
    return spread + np.sqrt(algorithm.ridge) * bound_of(problem)


def optimistic(theta: FloatArray, V: FloatArray, width: FloatArray) -> Indices:
    """<theta, x> + width sqrt(x^T V^-1 x) by a linear solve."""

    def indices(arms: FloatArray) -> FloatArray:
        solved = np.linalg.solve(V, arms.swapaxes(1, 2))
        norms = np.sqrt(np.einsum("nkd,ndk->nk", arms, solved))
        return np.einsum("nkd,nd->nk", arms, theta) + width[:, None] * norms

    return indices


def ridge(algorithm: Any, gram: FloatArray) -> FloatArray:
    """gram + lambda I."""
    return gram + algorithm.ridge * np.eye(gram.shape[1])


def all_it_knows(agents: Any, algorithm: Any, problem: Problem, _: Downloads, width: Any = width_of) -> Indices:
    """The ridge regression over everything that was settled and everything since."""
    base, fresh = agents.models.base, agents.models.fresh
    V = ridge(algorithm, base.gram + fresh.gram)
    theta = np.linalg.solve(V, (base.moment + fresh.moment)[..., None])[..., 0]
    return optimistic(theta, V, width(algorithm, problem, V, base.count + fresh.count))


def from_statistics(acting: Acting) -> Callable[[str], Iterator[Trial]]:
    """The trials of a family whose agents act as `acting` says."""

    def trials(name: str) -> Iterator[Trial]:
        if not about(name).says:
            return
        for parameters in confident(name):
            for schedule in ("all", "random"):
                label = "-".join([*map(str, parameters.values()), schedule])
                yield label, lambda p=parameters, s=schedule: next_choice(name, acting, p, s)

    return trials


def next_choice(name: str, acting: Acting, parameters: Mapping[str, Any], schedule: str) -> None:
    """After every step each agent chooses from probing arms. Its choice has the highest index recomputed from its
    statistics; and where that recomputation changed its mind in this step, so has the agent.
    """
    algorithm = talkative(name, **parameters)
    environment = home(name, schedule=schedule)
    problem = posed(environment.world(HORIZON, seeds_of(0).world), algorithm, network_of(name))
    rng = np.random.default_rng(3)
    everybody = np.arange(problem.agents)
    heard: Downloads = {}
    before, changed = None, 0
    for event in recorded(algorithm, environment, HORIZON, network=network_of(name)):
        for direction, message in event.crossed:
            if direction == "down" and message.arrays:
                for row, agent in enumerate(message.who):
                    share = {key: array[row : row + 1] for key, array in message.arrays.items()}
                    heard[int(agent)] = Message(message.kind, everybody[:1], share)
        arms = _probes(problem, rng)
        indices = acting_on(event.side.agents, acting)(event.side.agents, algorithm, problem, heard)
        scores = indices(arms)
        picks = event.side.agents.choose(everybody, arms)
        deciding = ~np.isnan(scores).any(axis=1)
        np.testing.assert_allclose(scores[everybody, picks][deciding], scores.max(axis=1)[deciding], rtol=1e-9)
        if before is not None and (event.crossed or event.side.relay):
            old = before(arms).argmax(axis=1)
            moved = scores[everybody, old] < scores.max(axis=1) - 1e-6
            assert not (picks == old)[moved].any()
            changed += moved.sum()
        before = indices
    assert changed >= 5, "nothing that was heard ever changed a mind: the trial shows nothing"


def _probes(problem: Problem, rng: np.random.Generator) -> FloatArray:
    """(n, K, d) arms for everybody: anything, or in an order of each agent's own where there is a list of all."""
    listed = problem.get(Candidates)
    if listed is None:
        return rng.standard_normal((problem.agents, 40, problem.dim)) / np.sqrt(problem.dim)
    return np.array([rng.permutation(listed.table()) for _ in range(problem.agents)])


def acting_on(agents: Any, acting: Acting) -> Callable[..., Indices]:
    """What such agents act on."""
    for kind, indices in acting.items():
        if isinstance(agents, kind):
            return indices
    raise NotImplementedError(f"add what {type(agents).__name__} act on to the file of their family")
