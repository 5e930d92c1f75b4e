"""Federated bandits: many agents, the same kind of decision, learning together without handing over raw data."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fedbandits import algorithms, deploy, environments, facts, network, privacy, stages, testing
    from fedbandits.contract.catalogue import ConfigError
    from fedbandits.contract.messages import Message
    from fedbandits.contract.problem import Problem
    from fedbandits.contract.wire import Wire
    from fedbandits.findings.results import Results
    from fedbandits.simulation.loop import Simulation, simulate
    from fedbandits.simulation.trace import Trace
    from fedbandits.studies.compare import compare, comparison
    from fedbandits.transport.attack import Attack

__version__ = "0.1.0"

__all__ = [
    "Attack",
    "ConfigError",
    "Message",
    "Problem",
    "Results",
    "Simulation",
    "Trace",
    "Wire",
    "algorithms",
    "compare",
    "comparison",
    "deploy",
    "environments",
    "facts",
    "network",
    "privacy",
    "simulate",
    "stages",
    "testing",
]

_HOMES = {
    "Attack": "transport.attack",
    "ConfigError": "contract.catalogue",
    "Message": "contract.messages",
    "Problem": "contract.problem",
    "Results": "findings.results",
    "Simulation": "simulation.loop",
    "Trace": "simulation.trace",
    "Wire": "contract.wire",
    "compare": "studies.compare",
    "comparison": "studies.compare",
    "simulate": "simulation.loop",
}
"""Where each name lives: it is imported when first asked for, so that the command line starts without the compiler."""


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(importlib.import_module(f"fedbandits.{_HOMES[name]}"), name)
    if name in __all__:
        return importlib.import_module(f"fedbandits.{name}")
    raise AttributeError(f"module 'fedbandits' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
