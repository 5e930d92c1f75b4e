"""What an agent is made with: an algorithm, what is known of the problem, and who the agent is."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

import numpy as np
from pydantic import Field, SkipValidation, field_validator, model_validator

from fedbandits.contract.algorithm import Algorithm, wire_of
from fedbandits.contract.catalogue import ConfigError
from fedbandits.contract.facts import Fact
from fedbandits.contract.parameters import parameters
from fedbandits.contract.population import Population
from fedbandits.contract.problem import Problem
from fedbandits.contract.streams import Secret, Seeds, Streams, seeds_of
from fedbandits.contract.wire import Wire
from fedbandits.deploy.algorithm_description import algorithm_from_plain, algorithm_to_plain
from fedbandits.deploy.errors import SettingsError
from fedbandits.deploy.former_settings import in_python, translated_settings
from fedbandits.deploy.known_facts import beyond_defaults, merged, plain_facts, read_facts, with_defaults

if TYPE_CHECKING:
    from typing import Self


HABITS = ("missing", "explore", "keep_shown")
"""Settings that may be given anew whenever the agent is opened: what it has learned does not rest on them."""
_NAMES = ("features", "arm_names")


@parameters
class Settings:
    """The settings of `Agent.open` that are written into its file; see there."""

    name: ClassVar[str] = "agent"
    """What errors call it."""

    algorithm: SkipValidation[Algorithm]
    dim: Annotated[int, Field(ge=1)]
    arms: Annotated[int, Field(ge=1)] | None = None
    agents: Annotated[int, Field(ge=1)] = 1
    identity: Annotated[int, Field(ge=0)] = 0
    horizon: Annotated[int, Field(ge=1)] = 10_000
    seed: Annotated[int, Field(ge=0)] = 0
    common: Annotated[int, Field(ge=0)] = 0
    facts: tuple[Fact, ...] = ()
    expire_after: Annotated[float, Field(gt=0)] | None = None
    packed: bool = False
    features: tuple[str, ...] | None = None
    arm_names: tuple[str, ...] | None = None
    missing: Literal["refused", "zero"] = "refused"
    explore: Annotated[float, Field(ge=0, le=1)] = 0.0
    keep_shown: bool = False

    @field_validator("facts", mode="before")
    @classmethod
    def _read_facts(cls, told: Any) -> tuple[Fact, ...]:
        return read_facts(told)

    @model_validator(mode="after")
    def _fits(self) -> Self:
        if isinstance(self.algorithm, type) or not hasattr(self.algorithm, "about"):
            raise ValueError(f"algorithm must be one of fedbandits.algorithms with parameters (got {self.algorithm!r})")
        if self.identity >= self.agents:
            raise ValueError(f"identity must be one of 0..{self.agents - 1} (got {self.identity})")
        for what, names in (("features", self.features), ("arm_names", self.arm_names)):
            if names is not None:
                _check_names(what, names, self.dim)
        return self

    @cached_property
    def problem(self) -> Problem:
        """What the algorithm may know. Families that know arms by their place have as many arms as dimensions."""
        arms = self.dim if self.arms is None else self.arms
        return Problem(agents=self.agents, dim=self.dim, arms=arms, horizon=self.horizon, facts=self.facts)

    @cached_property
    def feature_places(self) -> dict[str | int, int]:
        """Where each feature is in a row, by its name; by its number, counted from 0, where they have no names."""
        if self.features is not None:
            return {name: place for place, name in enumerate(self.features)}
        return {key: place for place in range(self.dim) for key in (place, str(place))}  # JSON has no numbers as keys

    @cached_property
    def wire(self) -> Wire:
        """How letters are read and written."""
        return wire_of(self.algorithm, self.problem, Wire(packed=self.packed))

    def population(self, secret: Secret | None = None) -> Population:
        """A population of one: agent `identity`, with the stream it has in a simulation under `seed`.

        Noise that protects people comes from `secret`; without one it follows the seed, as in a simulation.
        """
        about = self.algorithm.about
        if about.topology == "graph":
            raise SettingsError(
                f"algorithm: {about.name} talks among peers on a graph, which is simulated but not deployed; "
                "use one that talks to a server, or to nobody"
            )
        try:
            return self.algorithm.agents(self.problem, 1, self._streams(self._seeds.agents, self.identity, secret))
        except SettingsError:
            raise
        except ConfigError as error:
            raise SettingsError(f"{about.name}: {error}") from error

    def server_streams(self, secret: Secret | None = None) -> Streams:
        """What the server draws from: the stream that it has in a simulation under `seed`."""
        return self._streams(self._seeds.server, 0, secret)

    def plain(self) -> dict[str, Any]:
        """All settings in terms JSON has; the algorithm as its name and parameters, facts by name."""
        held = {item.name: getattr(self, item.name) for item in dataclasses.fields(self)}
        lists = {name: list(value) for name, value in held.items() if name in _NAMES and value is not None}
        described = {"algorithm": algorithm_to_plain(self.algorithm), "facts": plain_facts(self.facts)}
        return held | lists | described

    def shortest(self) -> dict[str, Any]:
        """`plain` without facts that say nothing new, and names that are none: the same for settings that mean the
        same.
        """
        plain = self.plain() | {"facts": plain_facts(beyond_defaults(self.facts))}
        return {name: value for name, value in plain.items() if name not in _NAMES or value is not None}

    def longest(self) -> dict[str, Any]:
        """`plain` with facts that are taken for granted: the same for settings that mean the same."""
        return self.plain() | {"facts": plain_facts(with_defaults(self.facts))}

    def text(self) -> str:
        """`plain` as one line of JSON."""
        return json.dumps(self.plain())

    @cached_property
    def _seeds(self) -> Seeds:
        return seeds_of(self.seed)

    def _streams(self, seed: np.random.SeedSequence, identity: int, secret: Secret | None) -> Streams:
        common = seeds_of(self.common).common
        return Streams(seed, identities=np.array([identity]), common=common, secret=secret)


def made(given: Mapping[str, Any]) -> Settings:
    """Settings of a new agent; names of features, or of arms, say how many there are."""
    for name, told in given.items():
        if advice := in_python(name, told):
            raise SettingsError(f"agent: {advice}")
    named = [len(given[name]) for name in _NAMES if isinstance(given.get(name), list | tuple)]
    try:
        return Settings(**({"dim": named[0]} if named else {}) | dict(given))
    except ConfigError as error:
        raise SettingsError(str(error)) from None


def stored(text: str, given: Mapping[str, Any]) -> Settings:
    """The settings that were written as `text`; whatever is `given` has to be the same, but for `HABITS`."""
    held = translated_settings(json.loads(text))
    try:
        algorithm = algorithm_from_plain(held["algorithm"], given.get("algorithm"))
    except ConfigError as error:
        raise SettingsError(f"algorithm: {error}; give the algorithm that the agent was made with") from None
    settings = made(held | {"algorithm": algorithm} | {name: given[name] for name in HABITS if name in given})
    wanted = made({item.name: getattr(settings, item.name) for item in dataclasses.fields(settings)} | dict(given))
    # facts are compared one by one: those that are not given are as they were
    wanted = dataclasses.replace(wanted, facts=merged(settings.facts, wanted.facts))
    if differing := list(_differences(settings.longest(), wanted.longest())):
        raise SettingsError(f"the agent was made with other settings ({'; '.join(differing)})")
    return settings


def has_other_habits(text: str, settings: Settings) -> bool:
    """Whether `settings` differ from those that were written as `text` in habits."""
    held = json.loads(text)
    return any(held.get(name, getattr(Settings, name)) != getattr(settings, name) for name in HABITS)


def _check_names(what: str, names: tuple[str, ...], dim: int) -> None:
    if len(set(names)) < len(names) or not all(names):
        raise ValueError(f"{what} must be names that are not empty, each once")
    if len(names) != dim:
        raise ValueError(f"{what} are {len(names)} names, dim is {dim}; leave dim out, or correct one of them")


def _differences(held: Mapping[str, Any], wanted: Mapping[str, Any]) -> Iterator[str]:
    before, now = _flat(held), _flat(wanted)
    if before["algorithm.name"] != now["algorithm.name"]:
        # parameters of two algorithms are not comparable
        before, now = (
            {name: value for name, value in side.items() if name == "algorithm.name" or "algorithm." not in name}
            for side in (before, now)
        )
    for name in dict.fromkeys([*before, *now]):
        if before.get(name) != now.get(name):
            yield f"{name}: {json.dumps(before.get(name))} there, {json.dumps(now.get(name))} now"


def _flat(plain: Mapping[str, Any]) -> dict[str, Any]:
    """Nested names joined by dots."""
    found: dict[str, Any] = {}
    for name, value in plain.items():
        if isinstance(value, dict):
            found |= {f"{name}.{inner}": item for inner, item in _flat(value).items()}
        else:
            found[name] = value
    return found
