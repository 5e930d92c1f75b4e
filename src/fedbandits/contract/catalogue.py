"""What the catalogue says of an algorithm, an environment or a network, and how one is found by its name."""

from __future__ import annotations

import importlib
import os
import sys
import warnings
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from importlib.metadata import EntryPoint, entry_points
from typing import Any, Generic, Literal, TypeVar

from pydantic import ValidationError

from fedbandits.contract.errors import ConfigError, explain, hint
from fedbandits.contract.wire import Utterance

__all__ = ["About", "AboutEnvironment", "AboutStage", "ConfigError", "Registry", "build", "explain", "hint"]

T = TypeVar("T")
_GUIDES = ("algorithm", "environment")
"""Of what there is a guide to adding one's own."""

Calls = Literal["never", "scheduled", "data"]
"""Whether *when* an agent calls depends on what it has observed. "scheduled" follows from turns alone."""


@dataclass(frozen=True, slots=True)
class About:
    """A catalogue entry."""

    name: str
    family: str
    topology: str
    """"alone", "star" or "graph"."""
    talks: str
    """When it talks."""
    says: tuple[Utterance, ...]
    """What crosses the wire; nothing else can."""
    guarantee: str
    """The guarantee that holds for the shipped variant, and what it rests on."""
    source: str
    calls: Calls = "data"
    """Whether the moments at which its agents call, or speak to peers, depend on data. A moment that does tells
    something of the data, whatever is said: what is private rests on "scheduled" or "never"."""
    private: bool = False
    hops: int | None = None
    """How many hops its messages travel at most, on a graph; None: as many as the network allows."""
    waits: bool = False
    """Whether its conversations need everybody: a deployed server then waits for the silent instead of leaving them
    out."""
    oracle: bool = False
    """Whether it is told what everybody else has to find out (`Truth`): a yardstick, not for use."""
    environment: str = "linear"
    """The environment it is at home in: what the conformance suite and examples run it on."""
    extra: str | None = None
    """The extra of this package without which it is listed and cannot be run."""

    @property
    def wire(self) -> str:
        """What crosses the wire, in words."""
        return "; ".join(map(str, self.says)) or "nothing"


@dataclass(frozen=True, slots=True)
class AboutEnvironment:
    """A catalogue entry."""

    name: str
    family: str
    summary: str
    source: str


Rows = Literal["keeps", "needs", "hides"]
"""What a stage does with single agents' messages: it lets them through, looks at each of them, or makes them
meaningless but for their sum over agents, as masks do."""


@dataclass(frozen=True, slots=True)
class AboutStage:
    """A catalogue entry."""

    name: str
    summary: str
    source: str
    rows: Rows = "keeps"
    """One that needs rows cannot be combined with one that hides them."""


class Registry(Mapping[str, type[T]], Generic[T]):
    """Classes by name: those of this package, those that installed packages offer, and any other by its address.

    An installed package offers what it names as an entry point of `group` (`fedbandits.algorithms`, say). Anything else
    is found by ``"module:Class"``, where the module may also be a file in the current directory. `needs` are the
    methods without which a class cannot be one of these.
    """

    def __init__(self, what: str, group: str, kinds: Iterable[type[T]], needs: tuple[str, ...]) -> None:
        self.what = what
        self._group = group
        self._needs = needs
        self._own: dict[str, type[T]] = {kind.about.name: kind for kind in kinds}  # type: ignore[attr-defined]

    def __getitem__(self, name: str) -> type[T]:
        if name in self._own:
            return self._own[name]
        if name in self._offered:
            return self._loaded(self._offered[name])
        if ":" in name:
            return self._at(name)
        raise KeyError(name)

    def __contains__(self, name: object) -> bool:
        return name in self._own or name in self._offered or (isinstance(name, str) and ":" in name)

    def __iter__(self) -> Iterator[str]:
        yield from self._own
        yield from self._offered

    def __len__(self) -> int:
        return len(self._own) + len(self._offered)

    def __or__(self, others: Mapping[str, type[T]]) -> dict[str, type[T]]:
        return {**self._own, **others}

    def find(self, name: str) -> type[T]:
        """The class called `name`; raises `ConfigError` with what may have been meant."""
        try:
            return self[name]
        except KeyError:
            address = f"; one of your own is named by its address, as in my_module:My{self.what.capitalize()}"
            raise ConfigError(f"unknown {self.what} {name!r}; {hint(name, sorted(self))}{address}") from None

    def about(self, name: str) -> Any:
        """The catalogue entry of the class called `name`."""
        return self.find(name).about  # type: ignore[attr-defined]

    def name_of(self, kind: type[T]) -> str:
        """The name under which `kind` is found again: that in the catalogue, or its address."""
        name = str(getattr(getattr(kind, "about", None), "name", ""))
        address = f"{kind.__module__}:{kind.__qualname__}"
        if self._own.get(name) is kind:
            return name
        try:
            return name if name in self._offered and self[name] is kind else address
        except ConfigError:  # what is offered under that name is another one, and broken
            return address

    @cached_property
    def _offered(self) -> dict[str, list[EntryPoint]]:
        """What installed packages offer by name; nobody takes the place of what is in this package."""
        offered: dict[str, list[EntryPoint]] = {}
        for point in entry_points(group=self._group):
            if point.name not in self._own:
                offered.setdefault(point.name, []).append(point)
        return offered

    def _loaded(self, points: list[EntryPoint]) -> type[T]:
        point, *others = points
        if others:
            packages = " and ".join(f"{_package(one)} ({one.value})" for one in points)
            raise ConfigError(
                f"{self.what} {point.name!r} is offered by {packages}; name the one you mean by its address"
            )
        try:
            return self._checked(point.load(), point.value)
        except ConfigError:
            raise
        except Exception as error:  # whatever somebody's module does when it is imported
            raise ConfigError(
                f"{self.what} {point.name!r} of {_package(point)} cannot be imported: {type(error).__name__}: {error}"
            ) from error

    def _at(self, address: str) -> type[T]:
        module_name, _, path = address.partition(":")
        try:
            found: Any = _module(module_name)
        except ModuleNotFoundError as error:
            if error.name is not None and not f"{module_name}.".startswith(f"{error.name}."):
                raise ConfigError(
                    f"{self.what} {address!r}: {module_name} needs {error.name}, which is missing"
                ) from error
            if module_name in self:
                raise ConfigError(
                    f"{self.what} {address!r}: {path!r} is not KEY=VALUE; write {module_name}:KEY=VALUE,KEY=VALUE"
                ) from None
            raise ConfigError(
                f"{self.what} {address!r}: there is no module {module_name!r}, neither installed nor in the current "
                "directory; write MODULE:CLASS"
            ) from None
        except Exception as error:
            raise ConfigError(
                f"{self.what} {address!r}: {module_name} cannot be imported: {type(error).__name__}: {error}"
            ) from error
        for part in path.split("."):
            if not hasattr(found, part):
                classes = [
                    name for name, held in vars(found).items() if isinstance(held, type) and not self._lacks(held)
                ]
                raise ConfigError(f"{self.what} {address!r}: no {part!r} there; {hint(part, classes)}")
            found = getattr(found, part)
        return self._checked(found, address)

    def _checked(self, found: Any, address: str) -> type[T]:
        if not isinstance(found, type):
            raise ConfigError(f"{self.what} {address!r}: is no class but {type(found).__name__}; name a class")
        if lacking := self._lacks(found):
            guide = f"; see docs/adding-an-{self.what}" if self.what in _GUIDES else ""
            raise ConfigError(f"{self.what} {address!r}: {found.__name__} lacks {' and '.join(lacking)}{guide}")
        return found

    def _lacks(self, kind: type) -> list[str]:
        return [name for name in ("about", *self._needs) if not hasattr(kind, name)]

    def importable(self) -> dict[str, type[T]]:
        """All of them, without those that cannot be imported, of which a warning tells."""
        found = {}
        for name in self:
            try:
                found[name] = self[name]
            except ConfigError as error:
                warnings.warn(str(error), stacklevel=2)
        return found


def _package(point: EntryPoint) -> str:
    return point.dist.name if point.dist is not None else "an installed package"


def _module(name: str) -> Any:
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        here = os.getcwd()
        if error.name != name.partition(".")[0] or here in sys.path:
            raise
        # a program that was installed does not look into the current directory by itself
        sys.path.insert(0, here)
        importlib.invalidate_caches()
        return importlib.import_module(name)


def build(registry: Mapping[str, type[T]], name: str, parameters: Mapping[str, Any], what: str) -> T:
    """The entry `name` of `registry` with `parameters`; raises `ConfigError` naming the field and the fix."""
    kind: type[T]
    if isinstance(registry, Registry):
        kind = registry.find(name)
    elif name in registry:
        kind = registry[name]
    else:
        raise ConfigError(f"unknown {what} {name!r}; {hint(name, sorted(registry))}")
    try:
        return kind(**parameters)
    except ValidationError as error:  # a class that pydantic checks, without our decorator
        raise ConfigError(explain(name, error)) from None
    except TypeError as error:  # a class that checks nothing itself
        raise ConfigError(f"{name}: {error}") from error
