"""What a federation has promised its people, by the settings that all of its agents have."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path

from fedbandits.contract.budget import Budget
from fedbandits.contract.catalogue import ConfigError
from fedbandits.deploy.flower.book.names import SETTINGS
from fedbandits.deploy.settings import stored


def promised(directory: Path) -> Budget | None:
    """The budget of each agent of the server in `directory`, of which nothing is spent as far as this tells; None where
    there is none, or the settings cannot be read here.
    """
    try:
        return _promised((directory / SETTINGS).read_text(encoding="utf-8"))
    except (OSError, ValueError, ConfigError):
        return None


@lru_cache(maxsize=4)
def _promised(settings: str) -> Budget | None:
    protection = stored(settings, {}).population().protection()
    return None if protection is None else Budget.of(protection)
