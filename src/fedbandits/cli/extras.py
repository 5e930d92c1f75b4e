"""Commands that need more than the core package say so in one line."""

from __future__ import annotations

from importlib.util import find_spec

from fedbandits.contract.catalogue import ConfigError


def require(extra: str, *modules: str) -> None:
    """Raise `ConfigError` with the command that helps unless all of `modules`, which `extra` brings, are there."""
    missing = [module for module in modules if find_spec(module) is None]
    if missing:
        raise ConfigError(f"this needs {', '.join(missing)}; install with: pip install 'fedbandits[{extra}]'")
