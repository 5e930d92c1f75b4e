"""What an algorithm may know beforehand."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import networkx as nx

    from fedbandits.linalg.links import LinkName


@dataclass(frozen=True, slots=True)
class Moment:
    """A bound on the tails of rewards X: E|X|^order <= raw and E|X - EX|^order <= central, with 1 < order <= 2."""

    order: float
    raw: float
    central: float


@dataclass(frozen=True, slots=True)
class Problem:
    """What an algorithm may know beforehand: sizes, noise level and bounds, never the answer."""

    agents: int
    dim: int
    arms: int
    horizon: int
    noise: float = 0.1
    """Sub-Gaussian constant of the reward noise."""
    bound: float = 1.0
    """Upper bound S on the norm of the unknown parameter."""
    arm_norm: float = 1.0
    """Upper bound on the norm of arms."""
    link: LinkName = "identity"
    """How the mean reward depends on <theta, x>."""
    shared: int | None = None
    """How many leading coordinates of the parameter all agents have in common (None: all of them)."""
    clusters: tuple[int, ...] | None = None
    """Which agents are alike, for oracles alone: everybody else has to find out."""
    moment: Moment | None = None
    """How heavy the tails of rewards are; None: sub-Gaussian, as `noise` says."""
    contamination: float = 0.0
    """The largest share of rewards, told by others or observed, that may be anything at all."""
    range: tuple[float, float] | None = None
    """The interval in which all rewards lie; None: no such bound is known."""
    network: nx.Graph[int] | None = None
    """Who can talk to whom, for algorithms without a server."""
    ttl: int = 1
    """How many hops a message lives on `network`."""
