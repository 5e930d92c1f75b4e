"""Federated bandits: many agents, the same kind of decision, learning together without handing over raw data."""

from __future__ import annotations

import importlib
import sys
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fedbandits import algorithms, deploy, environments, network, privacy
    from fedbandits.catalogue import ConfigError
    from fedbandits.compare import compare, comparison
    from fedbandits.protocol import Message, Problem
    from fedbandits.results import Results
    from fedbandits.simulate import Simulation, simulate
    from fedbandits.trace import Trace
    from fedbandits.wire import Wire

__version__ = "0.1.0"

__all__ = [
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
    "network",
    "privacy",
    "simulate",
]

_HOMES = {
    "ConfigError": "catalogue",
    "Message": "protocol",
    "Problem": "protocol",
    "Results": "results",
    "Simulation": "simulate",
    "Trace": "trace",
    "Wire": "wire",
    "compare": "compare",
    "comparison": "compare",
    "simulate": "simulate",
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


class _Package(ModuleType):
    """Keeps `fedbandits.simulate` the function, though importing the module of that name would bind the module."""

    def __setattr__(self, name: str, value: Any) -> None:
        if isinstance(value, ModuleType) and _HOMES.get(name) == name:
            value = getattr(value, name)
        super().__setattr__(name, value)


sys.modules[__name__].__class__ = _Package
