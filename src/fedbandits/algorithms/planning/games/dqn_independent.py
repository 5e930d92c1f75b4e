"""Deep Q-learning in a game: every agent has a network of its own."""

from __future__ import annotations

from typing import Annotated, ClassVar

from pydantic import Field

from fedbandits.algorithms.planning.games.deep_q import DeepQAgents, Shape
from fedbandits.contract.catalogue import About
from fedbandits.contract.extras import require
from fedbandits.contract.facts import Episodes, Game
from fedbandits.contract.parameters import parameters
from fedbandits.contract.problem import Problem
from fedbandits.contract.streams import Streams

_Count = Annotated[int, Field(ge=1)]
_Chance = Annotated[float, Field(ge=0, le=1)]


@parameters
class DQNIndependent:
    """Deep Q-learning (Mnih et al. 2015) of every agent for itself. Needs the extra `torch`.

    On a board (the fact `Game`) a network sees two pictures, where an agent's own actions lead and where those of the
    others do whom it sees: two convolutions of `filters` filters of `kernel` x `kernel`, and a layer of `hidden` units.
    Elsewhere it sees the arms as they are, in that layer. How far the episode is comes beside it. One step of Adam
    (`rate`) follows every `every` turns, on `batch` of the last `memory` transitions, with the loss of Huber towards

        r + max_a Q'(x', a, h + 1),     0 in place of Q' where the episode is over,

    Q' being the network as it was, renewed after every `renew` steps. With a probability that falls from `begin` to
    `end` over `explore` turns an agent takes any action, else the best one, the first of equals.

    The source says two convolutions, filter size 4, 32 filters and 256 units, and no more: all else is our reading.
    Agents are moved one after the other, each by its own network: so that one alone computes what it does among others.

    Guarantee: none.
    """

    filters: _Count = 32
    kernel: _Count = 4
    hidden: _Count = 256
    rate: Annotated[float, Field(gt=0, allow_inf_nan=False)] = 1e-3
    batch: _Count = 32
    memory: _Count = 2000
    every: _Count = 4
    renew: _Count = 50
    begin: _Chance = 1.0
    end: _Chance = 0.05
    explore: _Count = 1000

    about: ClassVar[About] = About(
        name="dqn-independent",
        family="planning",
        topology="alone",
        talks="never",
        says=(),
        calls="never",
        guarantee="none: to an agent that learns alone, others who learn are no MDP, and networks may not converge",
        source="baseline of Dubey (2022), thesis, section 10.6",
        environment="team-mdp",
        extra="torch",
    )

    def agents(self, problem: Problem, n: int, rng: Streams) -> DeepQAgents:
        """n agents with networks of their own."""
        require("torch", "torch")
        game = problem.get(Game)
        board = None if game is None else game.board
        blocks = 1 if game is None else problem.agents
        shape = Shape(problem.arms, problem.dim, blocks, board, self.filters, self.kernel, self.hidden)
        return DeepQAgents(self, shape, problem.need(Episodes, by=self.about).length, n, rng)

    def server(self, problem: Problem, n: int, rng: Streams) -> None:
        """Nobody."""
        return
