"""Environments by public name."""

from fedbandits.contract.catalogue import AboutEnvironment, Registry
from fedbandits.contract.world import Environment, Outcome, Turn, World
from fedbandits.environments.armed import ArmedWorld, BernoulliArms, GaussianArms, StableArms
from fedbandits.environments.benchmarks import Camelback, Michalewicz, StyblinskiTang
from fedbandits.environments.classification import Classification, Magic, Shuttle
from fedbandits.environments.clustered import ClusteredDrift, ClusteredLinear
from fedbandits.environments.curved import Cosine, Square
from fedbandits.environments.gap import Gap, Gap2
from fedbandits.environments.generalized import Logistic, PoissonCounts, Probit
from fedbandits.environments.hard import HardContaminated, HardHeavyTailed, HardMinimax
from fedbandits.environments.heterogeneous import HeterogeneousLinear, HeterogeneousRBF
from fedbandits.environments.lastfm import LastFM
from fedbandits.environments.linear import Linear, LinearBounded, LinearFixed, LinearShared
from fedbandits.environments.movielens import MovieLens
from fedbandits.environments.recommendation import Log, Recommendation
from fedbandits.environments.rkhs_mixture import RKHSMixture

ENVIRONMENTS: Registry[Environment] = Registry(
    "environment",
    "fedbandits.environments",
    (
        Linear,
        LinearBounded,
        LinearFixed,
        LinearShared,
        Gap,
        Gap2,
        ClusteredLinear,
        ClusteredDrift,
        Logistic,
        Probit,
        PoissonCounts,
        RKHSMixture,
        HeterogeneousLinear,
        HeterogeneousRBF,
        Camelback,
        StyblinskiTang,
        Michalewicz,
        BernoulliArms,
        GaussianArms,
        StableArms,
        HardHeavyTailed,
        HardContaminated,
        HardMinimax,
        LastFM,
        MovieLens,
        Cosine,
        Square,
        Shuttle,
        Magic,
    ),
    needs=("world",),
)

__all__ = [
    "ENVIRONMENTS",
    "AboutEnvironment",
    "ArmedWorld",
    "BernoulliArms",
    "Camelback",
    "Classification",
    "ClusteredDrift",
    "ClusteredLinear",
    "Cosine",
    "Environment",
    "Gap",
    "Gap2",
    "GaussianArms",
    "HardContaminated",
    "HardHeavyTailed",
    "HardMinimax",
    "HeterogeneousLinear",
    "HeterogeneousRBF",
    "LastFM",
    "Linear",
    "LinearBounded",
    "LinearFixed",
    "LinearShared",
    "Log",
    "Logistic",
    "Magic",
    "Michalewicz",
    "MovieLens",
    "Outcome",
    "PoissonCounts",
    "Probit",
    "RKHSMixture",
    "Recommendation",
    "Shuttle",
    "Square",
    "StableArms",
    "StyblinskiTang",
    "Turn",
    "World",
]
