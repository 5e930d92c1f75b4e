"""Environments by public name."""

from fedbandits.contract.world import AboutEnvironment, Environment, Outcome, Turn, World
from fedbandits.environments.armed import ArmedWorld, BernoulliArms, GaussianArms, StableArms
from fedbandits.environments.clustered import ClusteredDrift, ClusteredLinear
from fedbandits.environments.generalized import Logistic, PoissonCounts, Probit
from fedbandits.environments.hard import HardContaminated, HardHeavyTailed, HardMinimax
from fedbandits.environments.lastfm import LastFM
from fedbandits.environments.linear import Linear, LinearShared
from fedbandits.environments.movielens import MovieLens
from fedbandits.environments.recommendation import Log, Recommendation

ENVIRONMENTS: dict[str, type[Environment]] = {
    kind.about.name: kind
    for kind in (
        Linear,
        LinearShared,
        ClusteredLinear,
        ClusteredDrift,
        Logistic,
        Probit,
        PoissonCounts,
        BernoulliArms,
        GaussianArms,
        StableArms,
        HardHeavyTailed,
        HardContaminated,
        HardMinimax,
        LastFM,
        MovieLens,
    )
}

__all__ = [
    "ENVIRONMENTS",
    "AboutEnvironment",
    "ArmedWorld",
    "BernoulliArms",
    "ClusteredDrift",
    "ClusteredLinear",
    "Environment",
    "GaussianArms",
    "HardContaminated",
    "HardHeavyTailed",
    "HardMinimax",
    "LastFM",
    "Linear",
    "LinearShared",
    "Log",
    "Logistic",
    "MovieLens",
    "Outcome",
    "PoissonCounts",
    "Probit",
    "Recommendation",
    "StableArms",
    "Turn",
    "World",
]
