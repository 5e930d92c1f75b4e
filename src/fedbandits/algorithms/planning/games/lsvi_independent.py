"""LSVI-UCB in a game: every agent takes the others for a part of its surroundings."""

from __future__ import annotations

from typing import ClassVar, Literal

from fedbandits.algorithms.planning.games.own_block import OwnBlock, block_of
from fedbandits.algorithms.planning.lsvi_ucb import LSVIUCB
from fedbandits.contract.catalogue import About
from fedbandits.contract.parameters import parameters
from fedbandits.contract.problem import Problem
from fedbandits.contract.streams import Streams
from fedbandits.models.features import Features, Identity


@parameters
class LSVIIndependent(LSVIUCB):
    """LSVI-UCB (see `lsvi-ucb`) of every agent for itself, in a game.

    `sees` "all": features are the whole arm, in which block u of row k is what the k-th action of agent u would mean:
    where others are is told, though not what they do; "own": the agent's own block.

    Guarantee: none, since others who learn make no MDP.
    """

    sees: Literal["all", "own"] = "all"

    about: ClassVar[About] = About(
        name="lsvi-independent",
        family="planning",
        topology="alone",
        talks="never",
        says=(),
        calls="never",
        guarantee="none: to an agent that learns alone, others who learn are no MDP",
        source="baseline of Dubey (2022), thesis, section 10.6",
        environment="team-mdp",
    )

    def size(self, problem: Problem) -> int:
        """d, or b."""
        return problem.dim if self.sees == "all" else block_of(problem)

    def features(self, problem: Problem, rng: Streams) -> Features:
        """The arms, or the agents' own blocks."""
        return Identity(problem.dim) if self.sees == "all" else OwnBlock(problem, rng.identities)
