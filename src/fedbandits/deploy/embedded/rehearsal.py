"""A rehearsal: an agent's first decision should not have to wait for the compiler."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace

import numpy as np

from fedbandits.contract.catalogue import ConfigError
from fedbandits.contract.facts import Range
from fedbandits.contract.ledger import Ledger
from fedbandits.deploy.embedded.population import ALONE, population_with_secret
from fedbandits.deploy.settings import Settings
from fedbandits.transport.carriers import Serialising, hold

_rehearsed: set[str] = set()


def rehearse(settings: Settings) -> None:
    """Let a throw-away agent decide, learn and talk once, which compiles its kernels or loads them from disk.

    Compiling takes seconds, once for each version of the library on a machine; loading takes a fraction of a second,
    once for each process.
    """
    alone = replace(settings, agents=1, identity=0)
    key = replace(alone, seed=0, horizon=1).text()
    if key in _rehearsed:
        return
    problem, (population, _) = alone.problem, population_with_secret(alone)
    # unit vectors are arms that every family accepts
    arms = np.eye(problem.dim)[np.arange(problem.arms) % problem.dim][None]
    for _ in range(population.stages or 1):  # what an episode leads to is seen when it is over
        picks = population.choose(ALONE, arms)
        population.attribute(ALONE, ALONE)  # whoever protects persons has to know whom it is about
        population.learn(ALONE, arms, picks, np.full(1, _reward_within(settings)))
    population.calling()
    server = None
    with suppress(ConfigError):  # it may need to know more than an agent does
        server = settings.algorithm.server(problem, 1, alone.server_streams())
    if server is not None:
        hold(server, ALONE, Serialising([population], Ledger(), alone.wire))
    population.choose(ALONE, arms)
    _rehearsed.add(key)


def _reward_within(settings: Settings) -> float:
    within = settings.problem.get(Range)
    return 0.0 if within is None else within.low
