"""Environments by public name."""

from fedbandits.contract.catalogue import AboutEnvironment, Registry
from fedbandits.contract.room import Room
from fedbandits.contract.world import Environment, Outcome, Turn, World
from fedbandits.environments.armed import ArmedWorld, BernoulliArms, GaussianArms, StableArms
from fedbandits.environments.benchmarks import Camelback, Michalewicz, StyblinskiTang
from fedbandits.environments.candidates import Cosine8, Hartmann6
from fedbandits.environments.classification import Classification, Magic, Shuttle
from fedbandits.environments.clustered import ClusteredDrift, ClusteredLinear
from fedbandits.environments.clustered_classes import ClusteredClasses
from fedbandits.environments.curved import Cosine, Square
from fedbandits.environments.gap import Gap, Gap2
from fedbandits.environments.generalized import Logistic, PoissonCounts, Probit
from fedbandits.environments.hard import HardContaminated, HardHeavyTailed, HardMinimax
from fedbandits.environments.heterogeneous import HeterogeneousLinear, HeterogeneousRBF
from fedbandits.environments.lastfm import LastFM
from fedbandits.environments.linear import Linear, LinearBounded, LinearFixed, LinearShared
from fedbandits.environments.movielens import MovieLens
from fedbandits.environments.planning.grid_explore import GridExplore, GridWorld
from fedbandits.environments.planning.gymnasium_world import Gymnasium, GymnasiumWorld
from fedbandits.environments.planning.linear_mdp import AgentMDP, LinearMDP
from fedbandits.environments.planning.mdp import MDPs, MDPWorld
from fedbandits.environments.planning.tabular import DeepSea, RandomMDP, RiverSwim
from fedbandits.environments.planning.team_mdp import TeamMDP, TeamWorld
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
        Hartmann6,
        Cosine8,
        ClusteredClasses,
        LinearMDP,
        AgentMDP,
        RiverSwim,
        DeepSea,
        RandomMDP,
        Gymnasium,
        GridExplore,
        TeamMDP,
    ),
    needs=("world",),
)

__all__ = [
    "ENVIRONMENTS",
    "AboutEnvironment",
    "AgentMDP",
    "ArmedWorld",
    "BernoulliArms",
    "Camelback",
    "Classification",
    "ClusteredClasses",
    "ClusteredDrift",
    "ClusteredLinear",
    "Cosine",
    "Cosine8",
    "DeepSea",
    "Environment",
    "Gap",
    "Gap2",
    "GaussianArms",
    "GridExplore",
    "GridWorld",
    "Gymnasium",
    "GymnasiumWorld",
    "HardContaminated",
    "HardHeavyTailed",
    "HardMinimax",
    "Hartmann6",
    "HeterogeneousLinear",
    "HeterogeneousRBF",
    "LastFM",
    "Linear",
    "LinearBounded",
    "LinearFixed",
    "LinearMDP",
    "LinearShared",
    "Log",
    "Logistic",
    "MDPWorld",
    "MDPs",
    "Magic",
    "Michalewicz",
    "MovieLens",
    "Outcome",
    "PoissonCounts",
    "Probit",
    "RKHSMixture",
    "RandomMDP",
    "Recommendation",
    "RiverSwim",
    "Room",
    "Shuttle",
    "Square",
    "StableArms",
    "StyblinskiTang",
    "TeamMDP",
    "TeamWorld",
    "Turn",
    "World",
]
