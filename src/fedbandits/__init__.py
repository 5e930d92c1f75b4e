"""Federated bandits: many agents, the same kind of decision, learning together without handing over raw data."""

from fedbandits import algorithms, environments
from fedbandits.catalogue import ConfigError
from fedbandits.protocol import Message, Problem
from fedbandits.simulate import Simulation, simulate
from fedbandits.trace import Trace
from fedbandits.wire import Wire

__version__ = "0.1.0"

__all__ = [
    "ConfigError",
    "Message",
    "Problem",
    "Simulation",
    "Trace",
    "Wire",
    "algorithms",
    "environments",
    "simulate",
]
