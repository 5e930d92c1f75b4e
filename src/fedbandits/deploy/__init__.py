"""Deployment: the agent that a product embeds, the same algorithm that the simulator runs."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fedbandits.deploy.backup import back_up
    from fedbandits.deploy.check import Report, check_file
    from fedbandits.deploy.embedded.acknowledgements import Verdict
    from fedbandits.deploy.embedded.agent import Agent
    from fedbandits.deploy.embedded.decision import Decision
    from fedbandits.deploy.embedded.logged import Logged
    from fedbandits.deploy.embedded.status import Budget, EpisodesStanding, Status
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
        UnknownEpisodeError,
    )

__all__ = [
    "Agent",
    "AgentError",
    "Budget",
    "CannotForgetError",
    "ClosedError",
    "ConflictError",
    "CorruptError",
    "Decision",
    "DiskFullError",
    "EpisodesStanding",
    "ExpiredError",
    "InputError",
    "LetterError",
    "LockedError",
    "Logged",
    "ReplayError",
    "Report",
    "SettingsError",
    "Status",
    "StorageError",
    "UnknownDecisionError",
    "UnknownEpisodeError",
    "Verdict",
    "back_up",
    "check_file",
]

_HOMES = {
    "Agent": "embedded.agent",
    "Budget": "embedded.status",
    "Decision": "embedded.decision",
    "EpisodesStanding": "embedded.status",
    "Logged": "embedded.logged",
    "Status": "embedded.status",
    "Report": "check",
    "back_up": "backup",
    "check_file": "check",
    "Verdict": "embedded.acknowledgements",
}
"""Where names live that are no errors: they are imported when first asked for, so that programs which have no agent (a
federation's gate) start without all algorithms."""


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module 'fedbandits.deploy' has no attribute {name!r}")
    return getattr(importlib.import_module(f"fedbandits.deploy.{_HOMES.get(name, 'errors')}"), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
