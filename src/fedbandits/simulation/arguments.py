"""What people give to `simulate`, `compare` and the command line, as algorithms, environments and networks.

Each may be given as a value, `DisLinUCB(threshold=2)`; as a class, which stands for its defaults; or in words, as on
the command line: "dislinucb:threshold=2". What cannot be meant is refused by an error that says what to write.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias, TypeVar, cast

import numpy as np

from fedbandits.algorithms import ALGORITHMS
from fedbandits.channel import STAGES, through
from fedbandits.contract.algorithm import Algorithm
from fedbandits.contract.catalogue import ConfigError, build
from fedbandits.contract.description import describe, name_of
from fedbandits.contract.specs import Spec, parse
from fedbandits.contract.world import Environment, World
from fedbandits.environments import ENVIRONMENTS
from fedbandits.graphs.network import Network, as_network
from fedbandits.graphs.topologies import NETWORKS

if TYPE_CHECKING:
    import networkx as nx

T = TypeVar("T")


class WorldMaker(Protocol):
    """All that a run needs of an environment; an entry in the catalogue is for those who want to be found there."""

    def world(self, horizon: int, seed: np.random.SeedSequence) -> World:
        """The instance that `seed` stands for."""


AlgorithmLike: TypeAlias = "Algorithm | type[Algorithm] | str"
EnvironmentLike: TypeAlias = "WorldMaker | type[WorldMaker] | str"
NetworkLike: TypeAlias = "Network | nx.Graph[int] | type[Network] | str"
AlgorithmsLike: TypeAlias = "Mapping[str, AlgorithmLike] | Iterable[AlgorithmLike] | AlgorithmLike"


def algorithm_of(given: AlgorithmLike, option: str = "algorithm") -> Algorithm:
    """The algorithm that `given` stands for; `option` is named in errors.

    >>> algorithm_of("dislinucb:threshold=2")
    DisLinUCB(ridge=1.0, width='theory', delta=0.1, memory='auto', every=None, threshold=2.0)
    """
    if isinstance(given, str):
        return _algorithm_spelled(_unlabelled(given, option))
    made = _instance(given, "algorithm", option, ("about", "agents", "server"), Algorithm)
    return cast(Algorithm, made)


def environment_of(given: EnvironmentLike, option: str = "environment") -> Environment:
    """The environment that `given` stands for; `option` is named in errors.

    >>> environment_of("linear:clients=20").clients
    20
    """
    if isinstance(given, str):
        spec = _unlabelled(given, option)
        return build(ENVIRONMENTS, spec.name, spec.parameters, "environment")
    return cast(Environment, _instance(given, "environment", option, ("world",), WorldMaker))


def network_of(given: NetworkLike | None, option: str = "network") -> Network | None:
    """The network that `given` stands for, a bare graph being one on which messages live for one hop.

    >>> network_of("ring:ttl=2").ttl
    2
    """
    if given is None or isinstance(given, Network):
        return given
    if isinstance(given, str):
        spec = _unlabelled(given, option)
        return build(NETWORKS, spec.name, spec.parameters, "network")
    if isinstance(given, type) and issubclass(given, Network):
        return _by_default(given, option)
    if hasattr(given, "number_of_nodes"):
        return as_network(given)
    raise ConfigError(
        f"{option}: {_shown(given)} is no network; give one of fedbandits.network, its name, as in 'ring', or a "
        "networkx graph"
    )


def algorithms_of(given: AlgorithmsLike, option: str = "algorithms") -> dict[str, Algorithm]:
    """The algorithms that `given` stands for by their labels; `option` is named in errors.

    A mapping has labels. Otherwise the label is that of the words, as in "low=dislinucb:threshold=2", or else the
    algorithm's name, followed by the parameters in which those of the same name differ.

    >>> list(algorithms_of(["random", "dislinucb:threshold=1", "dislinucb:threshold=2", "high=dislinucb:threshold=9"]))
    ['random', 'dislinucb threshold 1.0', 'dislinucb threshold 2.0', 'high']
    """
    if isinstance(given, Mapping):
        return {_label(label, option): algorithm_of(item, f"{option}.{label}") for label, item in given.items()}
    if isinstance(given, str | type) or not isinstance(given, Iterable):
        given = [given]
    labelled = [_labelled(item, option) for item in given]
    alike: dict[str, list[Algorithm]] = {}
    for label, algorithm in labelled:
        if not label:
            alike.setdefault(name_of(algorithm), []).append(algorithm)
    names = {name: iter(_told_apart(name, same, option)) for name, same in alike.items()}
    labels = [label or next(names[name_of(algorithm)]) for label, algorithm in labelled]
    for label in labels:
        if labels.count(label) > 1:
            raise ConfigError(f"{option}: the label {label!r} is used twice; give one of them another: OTHER=NAME:...")
    return dict(zip(labels, (algorithm for _, algorithm in labelled), strict=True))


def check_network(algorithms: Mapping[str, Algorithm], network: Network | None) -> None:
    """Refuse to run `algorithms`, by label, without a network that one of them needs, or with one that nobody uses."""
    topologies = {label: _topology(algorithm) for label, algorithm in algorithms.items()}
    for label, topology in topologies.items():
        name = name_of(algorithms[label])
        if topology == "graph" and network is None:
            raise ConfigError(
                f"{name if label == name else f'{label}: {name}'} talks on a graph: give a network, by network= or, on "
                "the command line, by -n NAME"
            )
    if network is not None and topologies and "graph" not in topologies.values():
        talkers = [label for label, topology in topologies.items() if topology == "star"]
        loners = [label for label, topology in topologies.items() if topology != "star"]
        whom = [
            f"{_listed(labels)} {'talks' if len(labels) == 1 else 'talk'} to {partner}"
            for labels, partner in ((talkers, "a server"), (loners, "nobody"))
            if labels
        ]
        example = next(name for name, kind in ALGORITHMS.items() if _topology(kind) == "graph")
        raise ConfigError(
            f"network: {' and '.join(whom)}, so that it would not be used; leave it out (network=, or -n on the "
            f"command line), or add an algorithm that talks on a graph, such as {example}"
        )


def _topology(algorithm: object) -> str:
    return str(getattr(getattr(algorithm, "about", None), "topology", ""))


def _labelled(given: AlgorithmLike, option: str) -> tuple[str, Algorithm]:
    """The algorithm, and the label that was given with it in words; "" if none was."""
    if not isinstance(given, str):
        return "", algorithm_of(given, option)
    spec = parse(given, option)
    return spec.label, _algorithm_spelled(spec)


def _algorithm_spelled(spec: Spec) -> Algorithm:
    algorithm = build(ALGORITHMS, spec.name, spec.parameters, "algorithm")
    return through(algorithm, [build(STAGES, stage.name, stage.parameters, "stage") for stage in spec.stages])


def _unlabelled(text: str, option: str) -> Spec:
    spec = parse(text, option)
    if spec.label:
        raise ConfigError(f"{option} {text!r}: there is nothing to be labelled here; write NAME:KEY=VALUE,...")
    return spec


def _told_apart(name: str, algorithms: Sequence[Algorithm], option: str) -> list[str]:
    """A label for each of `algorithms`, all of which are called `name`."""
    if len(algorithms) == 1:
        return [name]
    held = [dict(_words(describe(algorithm))) for algorithm in algorithms]
    keys = list(dict.fromkeys(key for parameters in held for key in parameters))
    differing = [key for key in keys if any(other.get(key) != held[0].get(key) for other in held)]
    labels = [f"{name} {', '.join(f'{key} {own.get(key)}' for key in differing)}".strip() for own in held]
    if len(set(labels)) < len(labels):
        raise ConfigError(
            f"{option}: {name} is given more than once with the same parameters; leave one out, or label them: a "
            "mapping {label: algorithm}, or in words LABEL=NAME:..."
        )
    return labels


def _words(described: Mapping[str, Any], of: str = "") -> Iterator[tuple[str, Any]]:
    """The parameters in a description by name, those of stages after the name of the stage."""
    for key, value in described.items():
        if isinstance(value, list) and value and all(isinstance(part, dict) and "name" in part for part in value):
            for part in value:
                yield from _words(part, f"{part['name']} ")
        elif key != "name":
            yield f"{of}{key}", value


def _label(label: object, option: str) -> str:
    if not isinstance(label, str):
        raise ConfigError(f"{option}: labels must be words (got {label!r}); write {{'label': algorithm}}")
    return label


def _instance(given: object, what: str, option: str, needs: Sequence[str], protocol: type) -> object:
    """`given`, or one of the class `given`, which must have everything that `needs` name."""
    lacking = [name for name in needs if not hasattr(given, name)]
    if lacking:
        other, mark = ("environment", "world") if what == "algorithm" else ("algorithm", "agents")
        if hasattr(given, mark):
            why = f"but an {other}: the algorithm comes first, then the environment"
        else:
            said = _listed([_signature(name, protocol) for name in lacking])
            why = f"(it lacks {said}); give one of fedbandits.{what}s, its name or, by docs/adding-an-{what}, your own"
        raise ConfigError(f"{option}: {_shown(given)} is no {what} {why}")
    return _by_default(given, option) if isinstance(given, type) else given


def _by_default(kind: type[T], option: str) -> T:
    """One of `kind` with its defaults; refused where something has none."""
    missing = [
        parameter.name
        for parameter in inspect.signature(kind).parameters.values()
        if parameter.default is parameter.empty
        and parameter.kind not in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD)
    ]
    if missing:
        given = ", ".join(f"{name}=..." for name in missing)
        raise ConfigError(
            f"{option}: {kind.__name__} has no default for {_listed(missing)}; give one that is made: "
            f"{kind.__name__}({given})"
        )
    return kind()


def _signature(name: str, protocol: type) -> str:
    """A member of `protocol` as one writes it."""
    member = inspect.getattr_static(protocol, name, None)
    if not inspect.isfunction(member):
        return name
    return f"{name}({', '.join(list(inspect.signature(member).parameters)[1:])})"


def _listed(words: Sequence[str]) -> str:
    return " and ".join([", ".join(words[:-1]), words[-1]] if len(words) > 1 else words)


def _shown(given: object) -> str:
    if isinstance(given, type):
        return given.__name__
    shown = f"{type(given).__name__}()" if type(given).__repr__ is object.__repr__ else repr(given)
    return shown if len(shown) <= 60 else f"{shown[:57]}..."
