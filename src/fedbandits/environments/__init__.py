"""Environments by public name."""

from fedbandits.contract.catalogue import AboutEnvironment, Registry
from fedbandits.contract.world import Environment, Outcome, Turn, World
from fedbandits.environments.armed import ArmedWorld, BernoulliArms, GaussianArms, StableArms
from fedbandits.environments.clustered import ClusteredDrift, ClusteredLinear
from fedbandits.environments.generalized import Logistic, PoissonCounts, Probit
from fedbandits.environments.hard import HardContaminated, HardHeavyTailed, HardMinimax
from fedbandits.environments.lastfm import LastFM
from fedbandits.environments.linear import Linear, LinearFixed, LinearShared
from fedbandits.environments.movielens import MovieLens
from fedbandits.environments.recommendation import Log, Recommendation

ENVIRONMENTS: Registry[Environment] = Registry(
    "environment",
    "fedbandits.environments",
    (
        Linear,
        LinearFixed,
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
    ),
    needs=("world",),
)

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
    "LinearFixed",
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
