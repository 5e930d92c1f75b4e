"""What needs more than a plain installation says so in one line, with the command that helps."""

from __future__ import annotations

from importlib.util import find_spec

from fedbandits.contract.errors import ConfigError


def require(extra: str, *modules: str) -> None:
    """Raise `ConfigError` with the command that helps unless all of `modules`, which `extra` brings, are there."""
    missing = [module for module in modules if find_spec(module) is None]
    if missing:
        raise ConfigError(f"this needs {', '.join(missing)}; install with: pip install 'fedbandits[{extra}]'")
