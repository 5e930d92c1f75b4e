"""Runs that cannot fit into memory are refused before anything is drawn, and others are let through."""

from __future__ import annotations

from dataclasses import replace

import pytest

import fedbandits as fb
from fedbandits.algorithms import ALGORITHMS
from fedbandits.environments import ENVIRONMENTS
from fedbandits.simulation import memory
from fedbandits.simulation.memory import check_memory, least_memory, machine_memory

LINEAR = fb.environments.Linear(clients=40, dim=20, arms=10)


@pytest.mark.parametrize("name", ALGORITHMS)
def test_no_run_takes_less_than_is_said(name: str) -> None:
    if (extra := ALGORITHMS[name].about.extra) is not None:
        pytest.importorskip(extra, reason=f"{name} needs the extra {extra}")
    algorithm = ALGORITHMS[name]()
    kind = ENVIRONMENTS[algorithm.about.environment]
    smooth = kind.about.family == "gp"  # whose functions are found in few dimensions alone
    sizes = {"dim": 2 if smooth else 20, "arms": 2} if "dim" in kind.__dataclass_fields__ else {"arms": 20}
    game = kind.about.name == "team-mdp"  # which is solved, and hence small
    if game:
        sizes = {"arms": 3}
    environment = kind(clients=4 if game else 20, **sizes)
    network = "ring" if algorithm.about.topology == "graph" else None
    simulation = fb.Simulation(algorithm, environment, 50, network=network)
    turn = simulation.world.turn(0)
    shown = turn.arms.nbytes if "dim" in sizes else len(turn.who) * sizes["arms"] * 8
    pool = (getattr(environment, "pool", None) or 0) * sizes.get("dim", 0) * 8
    held = sum(array.nbytes for array in simulation.agents.state().values())
    assert 0 < least_memory(algorithm, environment) <= shown + pool + held


@pytest.mark.parametrize(
    ("environment", "said"),
    [
        (replace(LINEAR, clients=10**9), r"linear: clients=1,000,000,000, dim=20, arms=10 needs at least 2,328 GB"),
        (replace(LINEAR, dim=10**6), r"dim=1,000,000, arms=10 needs at least 24,004 GB"),
        (replace(LINEAR, arms=10**10), r"arms=10,000,000,000 needs at least 64,000 GB"),
        (replace(LINEAR, pool=10**12), r"pool=1,000,000,000,000 needs at least 160,000 GB"),
        (fb.environments.BernoulliArms(clients=10**12), r"clients=1,000,000,000,000, arms=5 needs at least 120,000 GB"),
    ],
)
def test_what_cannot_fit_is_refused_with_what_it_would_take(environment, said: str) -> None:
    with pytest.raises(fb.ConfigError, match=said):
        fb.simulate("ucb1" if "bernoulli" in environment.about.name else "dislinucb", environment, 10)


def test_a_horizon_that_cannot_be_kept_is_refused() -> None:
    with pytest.raises(fb.ConfigError, match=r"horizon: the trace of 1,000,000,000,000 steps needs at least [\d,]+ GB"):
        fb.simulate("random", LINEAR, 10**12)


def test_the_limit_is_the_machine_s(monkeypatch: pytest.MonkeyPatch) -> None:
    algorithm = fb.algorithms.DisLinUCB()
    needed = least_memory(algorithm, LINEAR)
    monkeypatch.setattr(memory, "machine_memory", lambda: 2 * needed)
    check_memory(algorithm, LINEAR, 10)
    monkeypatch.setattr(memory, "machine_memory", lambda: needed // 2)
    with pytest.raises(fb.ConfigError):
        check_memory(algorithm, LINEAR, 10)
    monkeypatch.setattr(memory, "machine_memory", lambda: None)
    check_memory(algorithm, LINEAR, 10)


def test_one_awake_at_a_time_needs_arms_for_one() -> None:
    everybody = least_memory(fb.algorithms.Random(), LINEAR)
    one = least_memory(fb.algorithms.Random(), replace(LINEAR, schedule="round-robin"))
    assert everybody == LINEAR.clients * one


def test_a_container_may_have_less_than_the_machine(tmp_path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = machine_memory()
    assert whole is not None
    limit = tmp_path / "memory.max"
    monkeypatch.setattr(memory, "_LIMITS", (limit,))
    limit.write_text("max\n")
    assert machine_memory() >= whole
    limit.write_text("1000000\n")
    assert machine_memory() == 1000000
