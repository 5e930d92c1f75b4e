"""What an agent is made with: an algorithm, what is known of the problem, and who the agent is."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Annotated, Any, cast

import numpy as np
from pydantic import ConfigDict, Field, SkipValidation, TypeAdapter, ValidationError, model_validator
from pydantic.dataclasses import dataclass

from fedbandits.algorithms import ALGORITHMS
from fedbandits.contract.algorithm import Algorithm, sizes_of
from fedbandits.contract.catalogue import ConfigError, build, explain
from fedbandits.contract.population import Agents
from fedbandits.contract.problem import Moment, Problem
from fedbandits.contract.streams import Streams
from fedbandits.contract.wire import Wire
from fedbandits.deploy.errors import SettingsError
from fedbandits.linalg.links import LinkName

if TYPE_CHECKING:
    from typing import Self

_AGENT_STREAMS = 1
"""Which child of a seed `simulate` gives to the agents."""

_Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]


@dataclass(frozen=True, kw_only=True, config=ConfigDict(extra="forbid", arbitrary_types_allowed=True))
class Settings:
    """The settings of `Agent.open` that are written into its file; see there."""

    algorithm: SkipValidation[Algorithm]
    dim: Annotated[int, Field(ge=1)]
    arms: Annotated[int, Field(ge=1)] | None = None
    agents: Annotated[int, Field(ge=1)] = 1
    identity: Annotated[int, Field(ge=0)] = 0
    horizon: Annotated[int, Field(ge=1)] = 10_000
    seed: Annotated[int, Field(ge=0)] = 0
    noise: Annotated[float, Field(ge=0, allow_inf_nan=False)] = 0.1
    bound: _Positive = 1.0
    arm_norm: _Positive = 1.0
    link: LinkName = "identity"
    shared: Annotated[int, Field(ge=1)] | None = None
    moment: Moment | None = None
    contamination: Annotated[float, Field(ge=0, lt=1)] = 0.0
    range: tuple[float, float] | None = None
    expire_after: Annotated[float, Field(gt=0)] | None = None
    packed: bool = False

    @model_validator(mode="after")
    def _fits(self) -> Self:
        if isinstance(self.algorithm, type) or not hasattr(self.algorithm, "about"):
            raise ValueError(f"algorithm must be one of fedbandits.algorithms with parameters (got {self.algorithm!r})")
        if self.identity >= self.agents:
            raise ValueError(f"identity must be one of 0..{self.agents - 1} (got {self.identity})")
        if self.range is not None and not self.range[0] < self.range[1]:
            raise ValueError(f"range must be (low, high) with low < high (got {self.range})")
        return self

    @property
    def problem(self) -> Problem:
        """What the algorithm may know. Families that know arms by their place have as many arms as dimensions."""
        return Problem(
            agents=self.agents,
            dim=self.dim,
            arms=self.dim if self.arms is None else self.arms,
            horizon=self.horizon,
            noise=self.noise,
            bound=self.bound,
            arm_norm=self.arm_norm,
            link=self.link,
            shared=self.shared,
            moment=self.moment,
            contamination=self.contamination,
            range=self.range,
        )

    @property
    def wire(self) -> Wire:
        """How letters are read and written."""
        return Wire(packed=self.packed).speaking(self.algorithm.about.says, sizes_of(self.algorithm, self.problem))

    def population(self) -> Agents:
        """A population of one: agent `identity`, with the stream it has in a simulation under `seed`."""
        about = self.algorithm.about
        if about.topology == "graph":
            raise SettingsError(
                f"algorithm: {about.name} talks among peers on a graph, which is simulated but not deployed; "
                "use one that talks to a server, or to nobody"
            )
        seed = np.random.SeedSequence(self.seed, spawn_key=(_AGENT_STREAMS,))
        try:
            alone = self.algorithm.agents(self.problem, 1, Streams(seed, identities=np.array([self.identity])))
        except ConfigError as error:
            raise SettingsError(f"{about.name}: {error}") from error
        return cast(Agents, alone)

    def plain(self) -> dict[str, Any]:
        """All settings in terms JSON has; the algorithm as its name and parameters."""
        held = {item.name: getattr(self, item.name) for item in dataclasses.fields(self)}
        if self.moment is not None:
            held["moment"] = dataclasses.asdict(self.moment)
        if self.range is not None:
            held["range"] = list(self.range)
        kind = type(self.algorithm)
        parameters = TypeAdapter(kind).dump_python(self.algorithm, mode="json")
        return {**held, "algorithm": {"name": kind.about.name, **parameters}}

    def text(self) -> str:
        """`plain` as one line of JSON."""
        return json.dumps(self.plain())


def made(given: Mapping[str, Any]) -> Settings:
    """Settings of a new agent."""
    try:
        return Settings(**given)
    except ValidationError as error:
        raise SettingsError(explain("agent", error)) from None


def stored(text: str, given: Mapping[str, Any]) -> Settings:
    """The settings that were written as `text`; whatever is `given` has to be the same."""
    held = json.loads(text)
    settings = made(held | {"algorithm": _algorithm(held["algorithm"], given.get("algorithm"))})
    wanted = made({item.name: getattr(settings, item.name) for item in dataclasses.fields(settings)} | dict(given))
    if differing := list(_differences(held, json.loads(wanted.text()))):
        raise SettingsError(f"the agent was made with other settings ({'; '.join(differing)})")
    return settings


def _algorithm(held: Mapping[str, Any], given: Algorithm | None) -> Algorithm:
    """The stored algorithm; one that is not in the catalogue has to be given."""
    name = held["name"]
    if name not in ALGORITHMS and given is not None:
        return given
    parameters = {key: value for key, value in held.items() if key != "name"}
    try:
        return build(ALGORITHMS, name, parameters, "algorithm")
    except ConfigError as error:
        raise SettingsError(f"algorithm: {error}; give the algorithm that the agent was made with") from None


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
