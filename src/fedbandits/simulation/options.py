"""How an algorithm is run in an environment, apart from how long and under which seed.

`Options` are the keywords of `simulate`, `compare` and whoever else runs something, typed once; `RunOptions.of` makes
of them the one value that everybody passes on.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any, TypedDict, Unpack, cast

from fedbandits.contract.catalogue import ConfigError, hint
from fedbandits.contract.wire import Wire
from fedbandits.graphs.network import Network
from fedbandits.simulation.arguments import NetworkLike, network_of
from fedbandits.simulation.gauges import Gauge, check_gauges
from fedbandits.transport.attack import Attack, AttackLike, attack_of


class Options(TypedDict, total=False):
    """The keywords, with what people may give; see `RunOptions` for what they mean."""

    network: NetworkLike | None
    wire: Wire | None
    coverage: bool
    theory: bool
    gauges: Sequence[type[Gauge]]
    attack: AttackLike | None


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOptions:
    """The options of a run."""

    network: Network | None = None
    """The graph on which agents without a server talk."""
    wire: Wire | None = None
    """How messages are written: `Wire(packed=True)` sends symmetric matrices as triangles."""
    coverage: bool = False
    """Whether to check now and then if the agents' confidence ellipsoids contain the truth."""
    theory: bool = False
    """Whether to evaluate what theory says of the regret, for algorithms of which it says anything."""
    gauges: tuple[type[Gauge], ...] = ()
    """Measurements beside those that every run has."""
    attack: Attack | None = None
    """Who lies to the server, and how; None for nobody, and then the regret of honest agents is not told apart."""

    @classmethod
    def of(cls, **given: Unpack[Options]) -> RunOptions:
        """The options in `given`; raises `ConfigError` for others.

        >>> RunOptions.of(coverage=True).coverage
        True
        >>> RunOptions.of(converage=True)
        Traceback (most recent call last):
        fedbandits.contract.errors.ConfigError: there is no option 'converage'; did you mean 'coverage'?
        """
        known = [item.name for item in fields(cls)]
        for name in given:
            if name not in known:
                raise ConfigError(f"there is no option {name!r}; {hint(name, known)}")
        values: dict[str, Any] = {
            **given,
            "network": network_of(given.get("network")),
            "gauges": tuple(given.get("gauges", ())),
            "attack": attack_of(given.get("attack")),
        }
        check_gauges(values["gauges"])
        return cls(**values)

    def keywords(self) -> Options:
        """The keywords that stand for this value."""
        return cast(Options, {item.name: getattr(self, item.name) for item in fields(self)})
