"""The population of one that a deployed agent is."""

from __future__ import annotations

import numpy as np

from fedbandits.contract.population import Population
from fedbandits.deploy.embedded.parts import parts_of
from fedbandits.deploy.embedded.secret import OwnSecret, UndeclaredSecret
from fedbandits.deploy.settings import Settings

ALONE = np.zeros(1, dtype=np.int64)
"""`who` of a population of one."""


def population_with_secret(settings: Settings) -> tuple[Population, OwnSecret | None]:
    """A new agent whose noise nobody else can repeat, and its secret; None where it has no use for one."""
    about = settings.algorithm.about
    if about.private:
        secret = OwnSecret(needed_by=about.name)
        population = settings.population(secret)
        if any(part is secret for _, part in parts_of(population)):
            return population, secret
    return settings.population(UndeclaredSecret(about.name)), None
