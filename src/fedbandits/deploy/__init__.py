"""Deployment: the agent that a product embeds, the same algorithm that the simulator runs."""

from fedbandits.deploy.agent import Agent
from fedbandits.deploy.backup import back_up
from fedbandits.deploy.decision import Decision
from fedbandits.deploy.errors import (
    AgentError,
    CannotForgetError,
    ClosedError,
    ConflictError,
    CorruptError,
    DiskFullError,
    ExpiredError,
    InputError,
    LetterError,
    LockedError,
    ReplayError,
    SettingsError,
    StorageError,
    UnknownDecisionError,
)
from fedbandits.deploy.status import Status

__all__ = [
    "Agent",
    "AgentError",
    "CannotForgetError",
    "ClosedError",
    "ConflictError",
    "CorruptError",
    "Decision",
    "DiskFullError",
    "ExpiredError",
    "InputError",
    "LetterError",
    "LockedError",
    "ReplayError",
    "SettingsError",
    "Status",
    "StorageError",
    "UnknownDecisionError",
    "back_up",
]
