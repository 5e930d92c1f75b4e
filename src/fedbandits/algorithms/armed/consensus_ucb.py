"""Consensus-UCB: neighbours average their counts and sums, and act on the averages."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, ClassVar, NamedTuple

import networkx as nx
import numpy as np
from pydantic import Field

from fedbandits.algorithms.armed.agents import SPOKEN_FOR, ArmedAgents, Places, in_place
from fedbandits.contract.arrays import FloatArray, Index, IntArray, State
from fedbandits.contract.catalogue import About
from fedbandits.contract.compiled import choose, heed, learn, quiet, stands_for, tell, untouched
from fedbandits.contract.facts import Noise, Place
from fedbandits.contract.messages import Inbox, Message
from fedbandits.contract.parameters import parameters
from fedbandits.contract.portrait import KNOWN
from fedbandits.contract.post import Post, letter
from fedbandits.contract.problem import Problem
from fedbandits.contract.streams import Streams
from fedbandits.contract.wire import Bound, Utterance, vector
from fedbandits.graphs.hops import adjacency
from fedbandits.linalg.jit import jit, jit_inside, jit_part
from fedbandits.linalg.simd import REGISTER, add, address, load, store, target, zero
from fedbandits.models import limits

COUNTS = vector("counts", "K", bound=Bound(limits.none, per_observation=False, low=0.0))
SUMS = vector("sums", "K")
ESTIMATE = Utterance("estimate", "peer", (COUNTS, SUMS))
"""An agent's estimates of pulls and of rewards per agent, one of each for every arm."""

_REGISTERS = 4
_LANES = _REGISTERS * REGISTER
"""Numbers of a letter that are added up side by side: enough to keep a processor busy while one waits for another."""


@parameters
class ConsensusUCB:
    """coop-UCB2, UCB on a running consensus: the non-robust baseline on graphs.

    Each agent estimates how often every arm has been pulled per agent, n^, and what that has brought per agent, s^. In
    every round it adds its own pull, tells its direct neighbours (n^ + xi, s^ + r xi) = y, and takes on

        x_i = y_i + (kappa/d_max) sum_{j heard} (y_j - y_i),   i.e.  x = P y,  P = I - (kappa/d_max) L,

    L the Laplacian of the graph and d_max its largest degree. After each arm once it plays, t rounds being over,

        argmax_k  s^/n^ + sigma sqrt( (2 gamma/G(eta)) ((n^ + sqrt(log t)) / (M n^)) (log t / n^) ),  G = 1 - eta^2/16.

    M is the number of agents the consensus is among: all those connected to the agent, itself included.

    `kappa` in (0, 1] is the step; by default d_max/(d_max + 1), for which every agent keeps some weight on itself, so
    that consensus is reached on every connected graph, and at once on a complete one; 1 may oscillate for ever (rings
    of even length). `noise` is sigma, by default that of the fact `Noise`: a sub-Gaussian constant, which heavy tails
    do not have. `gamma` may be 1; the analysis needs more.

    What is told is not a raw reward, but not private either: a neighbour can take an agent's first messages apart.

    Guarantee: group regret O(sum_k log T / Delta_k) plus a constant that depends on the graph through the spectrum of
    P, for Gaussian rewards of known sigma, a connected graph, `gamma` > 1, and all agents active in all rounds with no
    message lost: otherwise P is not doubly stochastic, and counts drift. None for heavy tails or outliers.
    """

    kappa: Annotated[float, Field(gt=0, le=1)] | None = None
    gamma: Annotated[float, Field(ge=1, allow_inf_nan=False)] = 1.1
    eta: Annotated[float, Field(gt=0, lt=4)] = 2.0
    noise: Annotated[float, Field(gt=0, allow_inf_nan=False)] | None = None

    about: ClassVar[About] = About(
        name="consensus-ucb",
        family="armed",
        topology="graph",
        talks="after every pull, to direct neighbours",
        says=(ESTIMATE,),
        calls="scheduled",
        guarantee="regret O(sum_k log T / Delta_k) + const(graph): Gaussian rewards of known sigma, connected graph, "
        "all agents active",
        source="Landgren, Srivastava & Leonard, CDC 2016",
        hops=1,
        environment="gaussian",
    )

    def agents(self, problem: Problem, n: int, rng: Streams) -> ConsensusAgents:
        """n agents that average with their neighbours."""
        return ConsensusAgents(self, problem, problem.need(Place, by=self.about), n, rng.identities)

    def server(self, problem: Problem, n: int, rng: Streams) -> None:
        """Agents talk to each other."""

    def step(self, largest_degree: int) -> float:
        """kappa/d_max: the weight of one neighbour; nobody has one on a graph without edges."""
        if largest_degree == 0:
            return 0.0
        return 1.0 / (largest_degree + 1) if self.kappa is None else self.kappa / largest_degree


class ConsensusAgents(ArmedAgents):
    """Agents with estimated pulls and rewards per agent, `counts` and `sums` (n, K), and the newest round they have
    heard of, `heard` (n,), -1 before the first.
    """

    keeps: ClassVar[tuple[str, ...]] = (*ArmedAgents.keeps, "counts", "sums", "heard")

    def __init__(self, parameters: ConsensusUCB, problem: Problem, place: Place, n: int, identities: IntArray) -> None:
        super().__init__(problem, n)
        degrees = np.asarray(adjacency(place.graph).sum(axis=1))
        self._step = parameters.step(int(degrees.max()))
        among = _connected(place.graph) if place.hops > 0 else np.ones(problem.agents)
        noise = problem.get(Noise, Noise()).sigma if parameters.noise is None else parameters.noise
        # sigma^2 2 gamma / (G(eta) M)
        self._scale = (2.0 * parameters.gamma * noise**2 / (1 - parameters.eta**2 / 16)) / among[identities]
        self._among = among[identities]
        self._direct = place.hops <= 1
        self._letter = -(-2 * problem.arms // _LANES) * _LANES
        self.counts = np.zeros((n, problem.arms))
        self.sums = np.zeros((n, problem.arms))
        self.heard = np.full(n, -1)

    def portrait(self) -> State:
        """How many samples each agent takes its estimates to stand for; see `portrait`."""
        return {KNOWN: self._among * self.counts.sum(axis=1)}

    def say(self, learned: IntArray) -> Sequence[Message]:
        """What each agent that has just pulled an arm knows, that pull included."""
        arrays = {COUNTS.name: self.counts[learned], SUMS.name: self.sums[learned]}
        return (Message(ESTIMATE.kind, learned, arrays),)

    def hear(self, inbox: Inbox) -> None:
        """Average with what neighbours said in the newest round; what is older has been overtaken."""
        counts, sums = inbox.said.arrays[COUNTS.name], inbox.said.arrays[SUMS.name]
        unfit = ~(np.isfinite(counts) & (counts >= 0) & np.isfinite(sums)).all(axis=1)
        if unfit.any():
            guilty = inbox.said.who[unfit][:5].tolist()
            raise ValueError(f"counts and sums told by agents {guilty} must be finite, and counts not negative")
        _mix(inbox.to, inbox.row, inbox.born, counts, sums, self._step, self.counts, self.sums, self.heard)

    def indices(self, who: IntArray) -> FloatArray:
        """(w, K) the index of every arm for each agent in `who`, on what it knows now; infinite without a sample."""
        return _indices(who, self.turns, self.counts, self.sums, self._scale)

    def _pick(self, who: IntArray) -> IntArray:
        turns = self.turns[who] + 1
        return np.where(turns <= self._arms, turns - 1, self.indices(who).argmax(axis=1))

    def _observe(self, who: IntArray, picks: IntArray, rewards: FloatArray) -> None:
        self.counts[who, picks] += 1.0
        self.sums[who, picks] += rewards

    # without the interpreter

    def corresponding(self, letters: IntArray) -> int:
        """See `Population`: counts and sums, and nothing behind them, so that lanes are full. Only where all that is
        heard in a round was said in it: nothing has been overtaken.
        """
        return self._letter if self._direct else 0

    def compiled(self) -> Any:
        """See `Population`."""
        if not untouched(self, ConsensusAgents, *SPOKEN_FOR, "indices", "say", "hear"):
            return None
        known = self.turns, self.counts, self.sums, self.heard
        return Averaging(*known, self._scale, self._step, np.empty(self._letter), self.places())


def _connected(graph: nx.Graph[int]) -> FloatArray:
    """(n,) how many agents each agent is connected to, itself included."""
    sizes = np.ones(graph.number_of_nodes())
    for component in nx.connected_components(graph):
        sizes[list(component)] = len(component)
    return sizes


@jit
def _indices(who: IntArray, turns: IntArray, counts: FloatArray, sums: FloatArray, scale: FloatArray) -> FloatArray:
    out = np.empty((len(who), counts.shape[1]))
    for a in range(len(who)):
        i = who[a]
        log = np.log(max(turns[i], 1))
        for k in range(counts.shape[1]):
            out[a, k] = _index(log, counts[i, k], sums[i, k], scale[i])
    return out


@jit_part
def _index(log: float, count: float, total: float, scale: float) -> float:
    # an agent may have given away all its weight on an arm, or nearly so, where not everybody acts in every round
    if count <= 0:
        return np.inf
    index = total / count + np.sqrt(scale * ((count + np.sqrt(log)) / count) * (log / count))
    return np.inf if np.isnan(index) else float(index)


@jit
def _mix(
    to: IntArray,
    row: IntArray,
    born: IntArray,
    told_counts: FloatArray,
    told_sums: FloatArray,
    step: float,
    counts: FloatArray,
    sums: FloatArray,
    heard: IntArray,
) -> None:
    n, arms = counts.shape
    said = np.concatenate((told_counts, told_sums), axis=1)
    before = heard.copy()
    for e in range(len(to)):
        heard[to[e]] = max(heard[to[e]], born[row[e]])
    voices = np.zeros(n)
    total = np.zeros((n, 2 * arms))
    for e in range(len(to)):
        i, r = np.uint64(to[e]), np.uint64(row[e])
        if born[r] == heard[i] and born[r] > before[i]:
            voices[i] += 1.0
            for k in range(2 * arms):
                total[i, k] += said[r, k]
    for who in range(n):
        _average(counts, sums, who, step, voices[who], total[who])


@jit_part
def _average(counts: FloatArray, sums: FloatArray, i: Index, step: float, voices: float, total: FloatArray) -> None:
    # as a convex combination: differences could leave a count below zero by rounding
    own = max(0.0, 1.0 - step * voices)
    arms = counts.shape[1]
    for k in range(arms):
        counts[i, k] = own * counts[i, k] + step * total[k]
        sums[i, k] = own * sums[i, k] + step * total[arms + k]


@quiet
class Averaging(NamedTuple):
    """`ConsensusAgents` for compiled loops."""

    turns: IntArray
    counts: FloatArray
    sums: FloatArray
    heard: IntArray
    scale: FloatArray
    step: float
    total: FloatArray
    """Room for sums of what was told, as long as a letter."""
    places: Places


@stands_for(choose, Averaging)
@jit_inside
def _choose(agents: Averaging, i: int, arms: FloatArray, row: int, room: FloatArray) -> int:
    if not in_place(agents.places, arms, row):
        return -1
    turn = int(agents.turns[i]) + 1
    if turn <= agents.places.arms:
        return turn - 1
    log = np.log(turn - 1)
    best, found = -np.inf, 0
    for k in range(agents.places.arms):
        index = _index(log, agents.counts[i, k], agents.sums[i, k], agents.scale[i])
        if index > best:
            best, found = index, k
    return found


@stands_for(learn, Averaging)
@jit_inside
def _learn(agents: Averaging, i: int, arms: FloatArray, row: int, pick: int, reward: float, room: FloatArray) -> bool:
    agents.counts[i, pick] += 1.0
    agents.sums[i, pick] += reward
    agents.turns[i] += 1
    return False


@stands_for(tell, Averaging)
@jit_inside
def _tell(agents: Averaging, i: int, letters: FloatArray, row: int) -> None:
    for k in range(agents.places.arms):
        letters[row, k] = agents.counts[i, k]
        letters[row, agents.places.arms + k] = agents.sums[i, k]


@stands_for(heed, Averaging)
@jit_inside
def _heed(agents: Averaging, i: int, post: Post, newest: int, first: int, last: int) -> None:
    if first == last:
        return
    agents.heard[i] = post.round[0]
    size = len(agents.total)
    told, total = address(post.said, 0), target(agents.total, 0)
    for k in range(0, size, _LANES):
        lanes = zero(_REGISTERS)
        for e in range(first, last):
            lanes = add(lanes, load(lanes, told, np.int64(letter(post, newest, e)) * size + k))
        store(total, k, lanes)
    _average(agents.counts, agents.sums, i, agents.step, float(last - first), agents.total)
