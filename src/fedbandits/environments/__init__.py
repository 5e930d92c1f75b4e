"""Environments by public name."""

from fedbandits.environments.contract import AboutEnvironment, Environment, Outcome, Turn, World
from fedbandits.environments.linear import Linear, LinearShared

ENVIRONMENTS: dict[str, type[Environment]] = {kind.about.name: kind for kind in (Linear, LinearShared)}

__all__ = [
    "ENVIRONMENTS",
    "AboutEnvironment",
    "Environment",
    "Linear",
    "LinearShared",
    "Outcome",
    "Turn",
    "World",
]
