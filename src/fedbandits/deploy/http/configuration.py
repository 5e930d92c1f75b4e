"""The file `agent.toml`: what the agent is made with, what it knows, and the limits of the service."""

from __future__ import annotations

import dataclasses
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import field
from os import PathLike
from pathlib import Path
from typing import Annotated, Any, TypeVar

from pydantic import ConfigDict, Field, ValidationError
from pydantic.dataclasses import dataclass

from fedbandits.contract.algorithm import Algorithm
from fedbandits.contract.catalogue import ConfigError, explain, hint
from fedbandits.contract.facts import Fact
from fedbandits.deploy.algorithm_description import algorithm_from_plain
from fedbandits.deploy.embedded.agent import Agent
from fedbandits.deploy.former_settings import in_toml
from fedbandits.deploy.known_facts import read_facts
from fedbandits.deploy.settings import Settings

_AtLeastOne = Annotated[int, Field(ge=1)]
_Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]
T = TypeVar("T")


@dataclass(frozen=True, kw_only=True, config=ConfigDict(extra="forbid"))
class Limits:
    """The table [service]: how much the service takes on. What exceeds a limit is refused, and nothing is changed."""

    largest_body: _AtLeastOne = 1_048_576
    """Bytes of one request."""
    body_seconds: _Positive = 10.0
    """How long the body of a request may take to arrive."""
    most_arms: _AtLeastOne = 1000
    """Arms of one decision."""
    most_decisions: _AtLeastOne = 100
    """Decisions of one request."""
    most_rewards: _AtLeastOne = 1000
    """Rewards of one request."""
    largest_number: Annotated[float, Field(gt=0, le=1e7)] = 1e6
    """Features and rewards lie within plus and minus this. Beside squares of much larger ones (from 1e8 on) the ridge
    term is lost to rounding, and an agent that has learned from them may be unable to decide ever again."""
    most_requests: _AtLeastOne = 200
    """Requests in work at the same time."""
    most_connections: _AtLeastOne = 500
    """Connections at the same time. Beyond it, the one that has waited longest without a request in work is closed."""
    header_seconds: _Positive = 10.0
    """How long the headers of a request may take to arrive."""
    idle_seconds: _AtLeastOne = 5
    """How long a connection may stay silent between two requests."""
    stop_seconds: Annotated[int, Field(ge=1)] = 20
    """How long requests in work may take to finish once the service was told to stop."""


@dataclass(frozen=True, kw_only=True, config=ConfigDict(extra="forbid"))
class Opening:
    """The settings of `Agent.open` that hold for one opening alone."""

    durable: bool = True
    timeout: _Positive = 10.0
    snapshot_every: _AtLeastOne = 1000
    verify: bool = True


@dataclasses.dataclass(frozen=True, kw_only=True)
class Configuration:
    """What `agent.toml` says; everything in it may be left out for an agent that exists."""

    settings: Mapping[str, Any] = field(default_factory=dict)
    """Those settings of `Agent.open` that are written into the agent's file."""
    opening: Opening = field(default_factory=Opening)
    limits: Limits = field(default_factory=Limits)

    def open(self, path: str | PathLike[str]) -> Agent:
        """The agent in the file `path`."""
        return Agent.open(path, **self.settings, **dataclasses.asdict(self.opening))


def load_configuration(path: str | PathLike[str]) -> Configuration:
    """The configuration in a file; errors name the file, the field and the fix."""
    try:
        content = tomllib.loads(Path(path).read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path}: cannot be read ({error})") from None
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"{path}: not valid TOML: {error}") from None
    try:
        return configuration(content)
    except ConfigError as error:
        raise ConfigError(f"{path}: {error}") from None


def configuration(content: Mapping[str, Any]) -> Configuration:
    """The configuration that a table of tables [agent], [facts] and [service] spells.

    >>> content = {"agent": {"dim": 3, "algorithm": {"name": "dislinucb", "threshold": 2.0}, "timeout": 5}}
    >>> found = configuration(content | {"facts": {"noise": 0.5, "range": [0, 1]}})
    >>> found.settings["algorithm"].threshold, found.settings["dim"], found.opening.timeout
    (2.0, 3, 5.0)
    >>> found.settings["facts"]
    (Noise(sigma=0.5), Range(low=0.0, high=1.0))
    """
    _check_names("the file", content, ("agent", "facts", "service"))
    agent, facts, service = (_table(content, name) for name in ("agent", "facts", "service"))
    of_settings, of_opening, of_limits = (_names(kind) for kind in (Settings, Opening, Limits))
    of_settings.remove("facts")
    for name, told in agent.items():
        if advice := in_toml(name, told):
            raise ConfigError(f"[agent] {advice}")
    _check_names("[agent]", agent, of_settings + of_opening)
    _check_names("[service]", service, of_limits)
    settings = {name: agent[name] for name in of_settings if name in agent}
    if "algorithm" in settings:
        settings["algorithm"] = _algorithm(settings["algorithm"])
    if facts:
        settings["facts"] = _facts(facts)
    opening = {name: agent[name] for name in of_opening if name in agent}
    return Configuration(
        settings=settings, opening=_made(Opening, opening, "[agent]"), limits=_made(Limits, service, "[service]")
    )


def _names(kind: type[Any]) -> list[str]:
    return [item.name for item in dataclasses.fields(kind)]


def _table(content: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    table = content.get(name, {})
    if not isinstance(table, dict):
        raise ConfigError(f"{name} must be a table; write [{name}] above its settings")
    return table


def _check_names(where: str, given: Iterable[str], known: list[str] | tuple[str, ...]) -> None:
    for name in given:
        if name not in known:
            raise ConfigError(f"{where} has no {name!r}; {hint(name, known)}")


def _algorithm(given: Any) -> Algorithm:
    try:
        return algorithm_from_plain(given)
    except ConfigError as error:
        raise ConfigError(f"[agent.algorithm] {error}") from None


def _facts(given: Mapping[str, Any]) -> tuple[Fact, ...]:
    try:
        return read_facts(given)
    except ConfigError as error:
        raise ConfigError(f"[facts] {error}") from None


def _made(kind: type[T], given: Mapping[str, Any], where: str) -> T:
    try:
        return kind(**given)
    except ValidationError as error:
        raise ConfigError(explain(where, error)) from None
