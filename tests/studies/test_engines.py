"""Engines: errors name the task, workers have one thread, and nobody is left behind."""

import concurrent.futures
import multiprocessing
import os
import signal
import subprocess
import sys
import threading
from dataclasses import dataclass, replace
from typing import ClassVar

import networkx as nx
import numpy as np
import pytest
from threadpoolctl import threadpool_info

import fedbandits as fb
from fedbandits.algorithms import Random
from fedbandits.algorithms.random import RandomAgents
from fedbandits.graphs.network import Given
from fedbandits.studies.engines import processes, warmup
from fedbandits.studies.engines.attempts import perform
from fedbandits.studies.engines.failures import TaskError
from fedbandits.studies.engines.processes import Processes
from fedbandits.studies.engines.this_process import ThisProcess
from fedbandits.studies.engines.warmup import compile_kernels, conditions_of, kind_of, on_few_clients, steps_by_kind
from fedbandits.studies.engines.workers import surroundings_of_workers
from fedbandits.studies.study import run_tasks
from fedbandits.studies.tasks import Task
from fedbandits.studies.watching import Unwatched

ENV = fb.environments.Linear(clients=2, dim=3, arms=4)


def in_worker():
    return multiprocessing.parent_process() is not None


@dataclass(frozen=True)
class Special:
    """Random agents that raise or die in a worker process in their hundredth step."""

    about: ClassVar = Random.about
    deed: str = "raise"

    def agents(self, problem, n, rng):
        return SpecialAgents(self.deed, problem, n, rng)

    def server(self, problem, n, rng):
        return None


class SpecialAgents(RandomAgents):
    def __init__(self, deed, problem, n, rng):
        super().__init__(problem, n, rng)
        self.deed, self.decided = deed, 0

    def choose(self, who, arms):
        self.decided += 1
        if in_worker() and self.decided > 100:
            if self.deed == "die":
                os.kill(os.getpid(), signal.SIGKILL)
            np.linalg.inv(np.eye(3))
            threads = max(pool["num_threads"] for pool in threadpool_info())
            raise UnfriendlyError(threads, os.environ["OMP_NUM_THREADS"])
        return super().choose(who, arms)


class UnfriendlyError(Exception):
    """Cannot be unpickled."""

    def __init__(self, threads, variable):
        super().__init__(f"threads {threads}, variable {variable}")


class Kept:
    """Stands for a store that is empty at first."""

    def __init__(self):
        self.labels = []

    def find(self, task, made_by=None):
        return None

    def keep(self, task, run):
        self.labels.append((task.label, task.seed))


def tasks(deed):
    fine = [Task("fine", Random(), ENV, 50, seed) for seed in range(3)]
    return [*fine, Task("special", Special(deed), ENV, 300, 7, {"dim": 3}), Task("long", Random(), ENV, 10**7, 0)]


def fine_ones(kept):
    """Of the three tasks before the special one, only what the other worker was busy with may be missing."""
    return len(kept.labels) >= 2 and {label for label, _ in kept.labels} == {"fine"}


def test_error_in_a_worker_names_the_task_and_keeps_what_was_finished():
    kept, before = Kept(), os.environ.get("OMP_NUM_THREADS")
    with pytest.raises(TaskError, match="special at dim=3, seed 7: UnfriendlyError: threads 1, variable 1") as caught:
        run_tasks(tasks("raise"), Processes(2), kept)
    assert "in choose" in str(caught.value.__cause__)
    assert fine_ones(kept)
    assert multiprocessing.active_children() == []
    assert os.environ.get("OMP_NUM_THREADS") == before


def test_of_many_tasks_few_are_waited_for_at_a_time(monkeypatch):
    """Waiting takes as long as there are tasks to wait for: of all at once, n tasks would take n^2."""
    waited, wait = [], concurrent.futures.wait

    def counting(futures, **how):
        waited.append(len(futures))
        return wait(futures, **how)

    monkeypatch.setattr(concurrent.futures, "wait", counting)
    monkeypatch.setattr(processes, "work", lambda dealt, parcel: perform(parcel.task(), None))
    many = {index: Task("fine", Random(), ENV, 5, seed=index) for index in range(100, 140)}
    with concurrent.futures.ThreadPoolExecutor(1) as one, concurrent.futures.ThreadPoolExecutor(1) as other:
        done = dict(Processes(2)._collect([one, other], many, [-1] * len(many), Unwatched()))
    assert done.keys() == many.keys()
    assert all(done[index].frame.equals(perform(task, None).frame) for index, task in many.items())
    assert max(waited) == 4
    assert waited[-1] <= 2


def test_ctrl_c_while_workers_are_handed_something_is_heard_afterwards():
    """A program that ignored it for as long would go on, every now and then, as if nobody had pressed it."""
    heard = []
    handler = signal.signal(signal.SIGINT, lambda *_: heard.append(len(heard)))
    try:
        with surroundings_of_workers():
            signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)
            child = subprocess.run(
                [sys.executable, "-c", "import signal; print(signal.pthread_sigmask(signal.SIG_BLOCK, []))"],
                capture_output=True,
                text=True,
                check=True,
            )
            assert heard == []
        assert heard == [0]
    finally:
        signal.signal(signal.SIGINT, handler)
    assert "SIGINT" in child.stdout, "and who is started meanwhile does not hear it"
    assert signal.SIGINT not in signal.pthread_sigmask(signal.SIG_BLOCK, [])


@pytest.mark.slow
def test_death_of_a_worker_names_what_it_may_have_been_running():
    kept = Kept()
    with pytest.raises(TaskError, match=r"a worker process died while running .*special at dim=3, seed 7"):
        run_tasks(tasks("die"), Processes(2), kept)
    assert fine_ones(kept)
    assert multiprocessing.active_children() == []


def test_error_in_this_process_names_the_task():
    unfit = Task("am", fb.algorithms.AsyncLinUCBAM(), ENV, 10, 4)
    kept = Kept()
    with pytest.raises(fb.ConfigError, match=r"^am, seed 4: async-linucb-am: shared: must lie in"):
        run_tasks([*tasks("raise")[:1], unfit], ThisProcess(), kept)
    assert kept.labels == [("fine", 0)]


def test_ray_names_its_extra_when_absent(monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(fb.ConfigError, match=r"pip install fedbandits\[ray\]"):
        fb.compare({"random": Random()}, ENV, horizon=5, seeds=1, engine="ray")


@pytest.mark.slow
def test_ray_gives_the_same_bits():
    pytest.importorskip("ray")
    both = {"random": Random(), "dis": fb.algorithms.DisLinUCB(threshold=1.0)}
    here = fb.compare(both, ENV, horizon=50, seeds=2)
    there = fb.compare(both, ENV, horizon=50, seeds=2, jobs=2, engine="ray")
    assert here.drop(columns="seconds").equals(there.drop(columns="seconds"))


@pytest.mark.slow
def test_ray_error_names_the_task():
    pytest.importorskip("ray")
    unfit = {"am": fb.algorithms.AsyncLinUCBAM()}
    with pytest.raises(fb.ConfigError, match=r"^am, seed 0: async-linucb-am: shared: must lie in"):
        fb.compare(unfit, ENV, horizon=10, seeds=1, engine="ray")


def test_kernels_are_compiled_on_a_small_graph_under_the_sameconditions_of():
    large = fb.environments.Linear(clients=50, dim=3, arms=4)
    network = Given.of(nx.cycle_graph(50), ttl="diameter", loss=0.2, delay=1.0, delay_max=3)
    environment, small = on_few_clients(large, network)
    assert environment.clients == small.graph(2, np.random.SeedSequence(0)).number_of_nodes() == 2
    assert (small.ttl, small.faults) == ("diameter", network.faults)
    assert on_few_clients(large, None)[1] is None

    class Fixed:
        clients = None

    unchanged = on_few_clients(Fixed(), network)
    assert unchanged[1] is network


def test_conditions_tell_sorts_of_faults_apart_and_not_their_degree():
    def of(**faults):
        return conditions_of(Given.of(nx.path_graph(2), **faults))

    assert of(loss=0.1) == of(loss=0.3) != of()
    assert of(contamination=0.1) != of(contamination=0.1, outliers="cauchy")
    assert conditions_of(None) is None


def test_a_little_run_is_told_what_is_to_follow_it(monkeypatch):
    """Many short runs may be worth a compiler that none of them is worth alone."""
    short, other = Task("short", Random(), ENV, 50, 0), Task("other", fb.algorithms.IndependentLinUCB(), ENV, 30, 0)
    steps = steps_by_kind([short, replace(short, seed=1), replace(short, seed=2), other])
    assert {steps[kind_of(short)], steps[kind_of(other)]} == {150, 30}
    assert kind_of(replace(short, environment=fb.environments.LinearFixed(clients=2))) not in steps
    little = []

    class Watched(fb.Simulation):
        def run(self, *args, **keywords):
            little.append((self.ahead, self.horizon, len(self.by_agent)))
            super().run(*args, **keywords)

    monkeypatch.setattr(warmup, "Simulation", Watched)
    monkeypatch.setattr(warmup, "_compiled", set())
    for _ in range(2):  # once for each kind
        compile_kernels(short, ahead=steps[kind_of(short)])
        compile_kernels(other)
    assert little == [(150, 50, 2), (0, 30, 2)]
