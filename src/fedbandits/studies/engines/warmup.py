"""Compiling kernels before anything is timed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import asdict, fields, is_dataclass, replace

import networkx as nx

from fedbandits.contract.world import Environment
from fedbandits.graphs.network import Given, Network
from fedbandits.simulation.loop import Simulation
from fedbandits.studies.tasks import Task

_compiled: set[tuple[object, ...]] = set()


def kind_of(task: Task) -> tuple[object, ...]:
    """As much of a task as kernels may depend on."""
    options = task.options
    return type(task.algorithm), type(task.environment), conditions_of(options.network), options.attack is not None


def steps_by_kind(tasks: Iterable[Task]) -> Counter[tuple[object, ...]]:
    """How many steps all tasks of a kind have."""
    steps: Counter[tuple[object, ...]] = Counter()
    for task in tasks:
        steps[kind_of(task)] += task.horizon
    return steps


def compile_kernels(task: Task, ahead: int = 0) -> None:
    """Run a little of this kind of task, once in each process; `ahead` steps of the kind are to follow, so that it may
    be worth compiling what these few steps are not.

    What it compiles is then in numba's cache for other processes, and loading is no part of `seconds`.
    """
    kind, attack = kind_of(task), task.options.attack
    if kind not in _compiled:
        _compiled.add(kind)
        # an error is for the real run to report
        with suppress(Exception):
            environment, network = on_few_clients(task.environment, task.options.network)
            steps = min(task.horizon, 64)
            little = Simulation(task.algorithm, environment, steps, task.seed, network=network, attack=attack)
            little.ahead = ahead
            little.run()


def conditions_of(network: Network | None) -> tuple[object, ...] | None:
    """Which faults there are, of which sort, but not how many: as much of a network as kernels may depend on."""
    if network is None:
        return None
    values = asdict(network.faults).values()
    return tuple(value if isinstance(value, str) else value > 0 for value in values)


def on_few_clients(environment: Environment, network: Network | None) -> tuple[Environment, Network | None]:
    """The same for two clients: another graph, since networks differ in how few nodes they have, but what befalls
    messages on it stays as it is. Where the number of clients cannot be chosen, nothing is changed.
    """
    clients = getattr(environment, "clients", None)
    if not isinstance(clients, int) or not is_dataclass(environment):
        return environment, network
    few = min(2, clients)
    if network is not None:
        conditions = {item.name: getattr(network, item.name) for item in fields(Network)}
        network = Given.of(nx.path_graph(few), **conditions)
    return replace(environment, clients=few), network
