"""The format of an experiment file (TOML), and how one is found and read.

    title, source, description        what it is, which publication's figure or table it repeats
    [environment]                     name = "linear", and its parameters
    [network]                         optional, for agents without a server: name = "ring", and its parameters
    [attack]                          optional, agents that lie to their server: name = "inflate", share, strength,
                                      lies; see `fedbandits.Attack`
    [run]                             horizon, seeds (how many), first_seed (0; another one where parameters were chosen
                                      on the seeds before it), points (steps kept of each run), coverage (whether
                                      confidence ellipsoids are checked), theory (whether bounds are evaluated)
    [algorithms.LABEL]                name = "dislinucb", and its parameters; through = ["quantise:bits=8"] for stages
                                      (one of your own by its address, name = "my_module:MyAlgorithm"; likewise
                                      environments, networks and stages)
    [sweep]                           optional: "environment.clients" = [1, 2, 4], "run.horizon" = [...],
                                      "algorithms.LABEL.threshold" = [...], "network.ttl" = [...],
                                      "network.name" = ["ring", "star"], "attack.share" = [...], "attack.name" =
                                      [...]; all combinations are run
    [[points]]                        instead of [sweep], for combinations of your own: each a table of the same
                                      paths, such as { "environment.clients" = 4, "environment.dim" = 2 }
    [[claims]]                        kind, text, and what that kind needs; seeds, how many what it speaks of is run
                                      under if those of [run] are too few, and looks; [claims.strata], how many of
                                      each kind of instance; see `claims`
    [[published]]                     of, metric, at, value, where: figures to be shown beside ours; see `published`
    [full]                            optional: values at full size, such as that of a publication, by their paths:
                                      "run.horizon" = 10_000_000, "environment.clients" = 100, "sweep.PATH" = [...],
                                      "algorithms.LABEL.uploads" = 16; points, claims and published as whole lists

A sweep over a parameter of one algorithm concerns that algorithm only. The column of a sweep is called like the
parameter; those of "network.name" and "attack.name" are called "network" and "attack"; and a parameter with the name of
something measured, such as epsilon, has the column NAME_given. Under a sweep over "network.name" only parameters that
all those networks have can be given.
"""

from __future__ import annotations

import dataclasses
import itertools
import os
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from functools import cached_property
from importlib import resources
from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, model_validator

from fedbandits.algorithms import ALGORITHMS
from fedbandits.channel import stages_of, through
from fedbandits.contract.algorithm import Algorithm
from fedbandits.contract.catalogue import ConfigError, build, explain, hint
from fedbandits.environments import ENVIRONMENTS
from fedbandits.experiments.sizes import enlarged
from fedbandits.findings.claims import METRICS, Claim, Growth, known_metric
from fedbandits.findings.published import Published
from fedbandits.graphs.network import Network
from fedbandits.graphs.topologies import NETWORKS
from fedbandits.simulation.options import RunOptions
from fedbandits.studies.study import Case
from fedbandits.transport.attack import Attack, attack_named


class Part(BaseModel):
    """A catalogue name and parameters, which the catalogue validates."""

    model_config = ConfigDict(extra="allow", frozen=True)

    name: str

    @property
    def parameters(self) -> dict[str, Any]:
        """Everything but the name."""
        return dict(self.model_extra or {})


class SweptPart(Part):
    """A network or an attack; the name may be left out where the sweep goes over names."""

    name: str = ""


class RunSettings(BaseModel):
    """How long, how often, and how much is kept."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    horizon: Annotated[int, Field(ge=1)]
    seeds: Annotated[int, Field(ge=1)] = 10
    first_seed: Annotated[int, Field(ge=0)] = 0
    points: Annotated[int, Field(ge=1)] = 200
    coverage: bool = False
    theory: bool = False


def _flat(sweep: Any) -> Any:
    """Dotted keys that TOML has read as nested tables, as dotted keys again."""
    if not isinstance(sweep, dict):
        return sweep

    def leaves(table: Mapping[str, Any], at: str) -> Iterator[tuple[str, Any]]:
        for name, value in table.items():
            path = f"{at}.{name}" if at else name
            if isinstance(value, dict):
                yield from leaves(value, path)
            else:
                yield path, value

    return dict(leaves(sweep, ""))


Sweep = Annotated[dict[str, Annotated[list[Any], Field(min_length=1)]], BeforeValidator(_flat)]
Point = Annotated[dict[str, Any], Field(min_length=1), BeforeValidator(_flat)]
Replaced = Annotated[dict[str, Any], Field(min_length=1), BeforeValidator(_flat)]


class Experiment(BaseModel):
    """A validated experiment file: everything in it can be run, and every claim speaks of something that is."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    title: str
    source: str
    description: str = ""
    environment: Part
    network: SweptPart | None = None
    attack: SweptPart | None = None
    run: RunSettings
    algorithms: Annotated[dict[str, Part], Field(min_length=1)]
    sweep: Sweep = {}
    points: list[Point] = []
    claims: list[Claim] = []
    published: list[Published] = []
    full: Replaced | None = None

    @model_validator(mode="after")
    def _fits_together(self) -> Experiment:
        if self.sweep and self.points:
            raise ValueError("points: give either [sweep] or [[points]], not both")
        for at, point in enumerate(self.points):
            if point.keys() != self.points[0].keys():
                raise ValueError(f"points.{at}: every point needs the same keys as the first: {', '.join(self.paths)}")
        for path in self.paths:
            self._check_axis(path)
        for label in self.algorithms:
            columns = [column_of(path) for path in self.axes(label)]
            if len(set(columns)) < len(columns):
                raise ValueError(f"sweep: two of its columns for {label!r} have the same name: {', '.join(columns)}")
        for at, claim in enumerate(self.claims):
            self._check_mentioned(f"claims.{at}", claim.labels, claim.columns, claim.metrics)
            if isinstance(claim, Growth):
                self._check_numbers(f"claims.{at}", claim.against)
        self._check_network()
        for case in self.cases:  # builds everything, and says what cannot be built
            if case.algorithm.about.topology == "graph" and case.options.network is None:
                name = self.algorithms[case.label].name
                raise ValueError(f"algorithms.{case.label}: {name} talks on a graph; give [network] with a name")
        for at, figure in enumerate(self.published):
            self._check_mentioned(f"published.{at}", [figure.of], list(figure.at), [figure.metric])
            if not any(figure.speaks_of(case.label, case.point) for case in self.cases):
                raise ValueError(f"published.{at}: {figure.of!r} is not run at {figure.at}; name the whole sweep point")
        if self.full is not None:
            _ = self.large  # is held to all of this, too
        return self

    def enlarged(self) -> Experiment:
        """The same experiment at full size, under a title that says so."""
        if self.large is None:
            raise ConfigError(
                f"full: {self.title!r} has one size only; give its file a table [full] with what is larger, such as "
                '"run.horizon" = 1_000_000'
            )
        return self.large

    @cached_property
    def large(self) -> Experiment | None:
        """What [full] makes of it; None without."""
        if self.full is None:
            return None
        content = self.model_dump(exclude={"full"}) | {"title": f"{self.title} (full size)"}
        try:
            return Experiment.model_validate(enlarged(content, self.full))
        except ValidationError as error:
            raise ValueError(explain("full", error)) from None

    @cached_property
    def cases(self) -> list[Case]:
        """Every algorithm at every sweep point that concerns it."""
        return [self._case(label, values) for label in self.algorithms for values in self._values(label)]

    def seeds_of(self, label: str, point: Mapping[str, Any]) -> int:
        """How many seeds an algorithm is run under at a sweep point: as many as any claim about it asks for."""
        asked = [claim.seeds or 0 for claim in self.claims if claim.speaks_of(label, point)]
        return max([self.run.seeds, *asked])

    @property
    def columns(self) -> list[str]:
        """Names of the sweep columns; see `column_of`."""
        return list(dict.fromkeys(column_of(path) for path in self.paths))

    @property
    def paths(self) -> list[str]:
        """What is swept over."""
        return list(self.points[0] if self.points else self.sweep)

    def axes(self, label: str) -> list[str]:
        """The sweep paths that concern one algorithm."""
        return [path for path in self.paths if not path.startswith("algorithms.") or path.split(".")[1:-1] == [label]]

    def _values(self, label: str) -> list[dict[str, Any]]:
        """The sweep points that concern one algorithm: values by path, each combination once."""
        axes = self.axes(label)
        if not self.points:
            return [
                dict(zip(axes, row, strict=True)) for row in itertools.product(*(self.sweep[path] for path in axes))
            ]
        rows = [{path: point[path] for path in axes} for point in self.points]
        return [row for at, row in enumerate(rows) if row not in rows[:at]]

    def _check_mentioned(
        self, where: str, labels: Sequence[str], columns: Sequence[str], metrics: Sequence[str]
    ) -> None:
        for what, names, known in (
            ("algorithm", labels, list(self.algorithms)),
            ("sweep column", columns, self.columns),
        ):
            for name in names:
                if name not in known:
                    raise ValueError(f"{where}: no {what} {name!r} here; {hint(name, known)}")
        for metric in metrics:
            if not known_metric(metric):
                raise ValueError(f"{where}: unknown metric {metric!r}; {hint(metric, list(METRICS))}")
            if metric.endswith(("upper_bound", "lower_bound")) and not self.run.theory:
                raise ValueError(f"{where}: {metric} is known only where it is asked for; set run.theory = true")

    def _check_numbers(self, where: str, column: str) -> None:
        swept = [value for path in self.paths if column_of(path) == column for value in self._swept(path)]
        for value in swept:
            if isinstance(value, bool) or not isinstance(value, int | float):
                raise ValueError(f"{where}: growth against {column!r} needs numbers to grow along (got {value!r})")

    def _check_network(self) -> None:
        """What is said of networks fits together."""
        swept = [path for path in self.paths if path.startswith("network.")]
        if self.network is None and swept and NETWORK_NAME not in swept:
            raise ValueError(f"sweep: {swept[0]!r} is a parameter of no network; give [network] with a name")
        if self.network is not None and not self.network.name and NETWORK_NAME not in swept:
            raise ValueError(f"network.name: field required; known are: {', '.join(NETWORKS)}")
        if NETWORK_NAME in swept:
            self._check_common([_parameter_of(path) for path in swept if path != NETWORK_NAME])

    def _check_common(self, swept: Sequence[str]) -> None:
        """Every parameter that is given or `swept` belongs to all networks that are swept over."""
        takes = {}
        for name in self._swept(NETWORK_NAME):
            with suppress(ConfigError):  # what cannot be found is told when it is built
                takes[name] = [item.name for item in dataclasses.fields(NETWORKS.find(name))]
        for given in (*(self.network.parameters if self.network else ()), *swept):
            for name, own in takes.items():
                if given not in own:
                    common = [item for item in own if all(item in others for others in takes.values())]
                    raise ValueError(
                        f"network.{given}: {name} has no such parameter, and it is swept over; "
                        f"common to all of {', '.join(takes)} are: {', '.join(common)}"
                    )

    def _swept(self, path: str) -> list[Any]:
        """The values that `path` takes."""
        return [point[path] for point in self.points] if self.points else self.sweep[path]

    def _check_axis(self, path: str) -> None:
        parts = path.split(".")
        legal = (
            path in ("run.horizon", NETWORK_NAME, ATTACK_NAME)
            or (parts[0] in ("environment", "network", "attack") and len(parts) == 2 and parts[-1] != "name")
            or (parts[0] == "algorithms" and len(parts) == 3 and parts[-1] != "name")
        )
        if not legal:
            raise ValueError(
                f"sweep: cannot sweep {path!r}; possible are run.horizon, environment.PARAMETER, network.PARAMETER, "
                "network.name, attack.PARAMETER, attack.name and algorithms.LABEL.PARAMETER"
            )
        if parts[0] == "algorithms" and parts[1] not in self.algorithms:
            raise ValueError(f"sweep: no algorithm {parts[1]!r} here; {hint(parts[1], list(self.algorithms))}")

    def _case(self, label: str, values: Mapping[str, Any]) -> Case:
        def swept(table: str) -> dict[str, Any]:
            return {_parameter_of(path): value for path, value in values.items() if path.rpartition(".")[0] == table}

        table = f"algorithms.{label}"
        algorithm, environment = self.algorithms[label], self.environment
        return Case(
            label,
            _algorithm(algorithm.name, algorithm.parameters | swept(table), table),
            _built(
                ENVIRONMENTS,
                environment.name,
                environment.parameters | swept("environment"),
                "environment",
                "environment",
            ),
            _whole(values.get("run.horizon", self.run.horizon)),
            {column_of(path): value for path, value in values.items()},
            RunOptions(
                network=self._network(swept("network")),
                coverage=self.run.coverage,
                theory=self.run.theory,
                attack=self._attack(swept("attack")),
            ),
        )

    def _network(self, swept: dict[str, Any]) -> Network | None:
        """The network with what is `swept`, its name perhaps; None where there is none."""
        if self.network is None and not swept:
            return None
        part = self.network or SweptPart()
        name = str(swept.pop("name", part.name))
        network: Network = _built(NETWORKS, name, part.parameters | swept, "network", "network")
        return network

    def _attack(self, swept: dict[str, Any]) -> Attack | None:
        """The attack with what is `swept`, its name perhaps; None where there is none."""
        if self.attack is None and not swept:
            return None
        part = self.attack or SweptPart()
        name = str(swept.pop("name", part.name))
        try:
            return attack_named(name, part.parameters | swept)
        except ConfigError as error:
            raise ValueError(str(error)) from None


NETWORK_NAME = "network.name"
ATTACK_NAME = "attack.name"
_MEASURED = {"algorithm", "seed", "step", "clients", *METRICS}


def column_of(path: str) -> str:
    """The name of a sweep path's column.

    >>> [column_of(path) for path in ("environment.clients", "network.name", "algorithms.private.epsilon")]
    ['clients', 'network', 'epsilon_given']
    """
    name = path.partition(".")[0] if path in (NETWORK_NAME, ATTACK_NAME) else _parameter_of(path)
    return f"{name}_given" if name in _MEASURED and path != "environment.clients" else name


def _parameter_of(path: str) -> str:
    return path.rpartition(".")[2]


def shipped_experiments() -> dict[str, Path]:
    """The experiments that come with the package, by name."""
    folder = Path(str(resources.files("fedbandits.experiments")))
    return {path.stem: path for path in sorted(folder.glob("*.toml"))}


def load_experiment(name_or_path: str | os.PathLike[str]) -> Experiment:
    """An experiment by the name of a shipped one, or by the path of a file; errors name file and field.

    >>> load_experiment("demo").run.horizon
    2000
    """
    shipped = shipped_experiments()
    path = shipped.get(str(name_or_path), Path(name_or_path))
    try:
        content = tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise ConfigError(
            f"no experiment {str(name_or_path)!r}: not a file, and {hint(str(name_or_path), list(shipped))}"
        ) from None
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path}: cannot be read ({error})") from None
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"{path.name}: not valid TOML: {error}") from None
    try:
        return Experiment.model_validate(content)
    except ValidationError as error:
        raise ConfigError(explain(path.name, error)) from None


def _built(registry: Mapping[str, type[Any]], name: str, parameters: dict[str, Any], what: str, table: str) -> Any:
    try:
        return build(registry, name, parameters, what)
    except ConfigError as error:
        raise ValueError(f"{table}: {error}") from None


def _algorithm(name: str, parameters: dict[str, Any], table: str) -> Algorithm:
    stages = parameters.pop("through", [])
    algorithm: Algorithm = _built(ALGORITHMS, name, parameters, "algorithm", table)
    try:
        return through(algorithm, stages_of(stages, f"{table}.through"))
    except ConfigError as error:
        raise ValueError(f"{table}: {error}") from None


def _whole(horizon: Any) -> int:
    if not isinstance(horizon, int) or horizon < 1:
        raise ValueError(f"sweep: run.horizon must be whole numbers of at least 1 (got {horizon!r})")
    return horizon
