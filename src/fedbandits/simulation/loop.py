"""The round loop: arms, choices, rewards, learning, talk."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any, ClassVar, Unpack

import numpy as np
from threadpoolctl import ThreadpoolController

from fedbandits.contract.algorithm import Algorithm, bounds_of, wire_of
from fedbandits.contract.arrays import Array, BoolArray, FloatArray, IntArray, State
from fedbandits.contract.booking import Books, Speech, books_of, priced
from fedbandits.contract.budget import portrayed
from fedbandits.contract.catalogue import ConfigError
from fedbandits.contract.compiled import FAILED, PENDING
from fedbandits.contract.facts import Contamination, Place
from fedbandits.contract.ledger import DIRECTIONS, UNITS, Ledger
from fedbandits.contract.portrait import EDGES, TRUTH, links
from fedbandits.contract.problem import Problem
from fedbandits.contract.server import patience_of
from fedbandits.contract.state import Stateful, load_whole
from fedbandits.contract.streams import Streams, seeds_of
from fedbandits.contract.world import World, turn_for
from fedbandits.graphs.network import Network
from fedbandits.linalg import compiling
from fedbandits.linalg.recycled import Recycled
from fedbandits.simulation.arguments import (
    AlgorithmLike,
    EnvironmentLike,
    algorithm_of,
    check_network,
    environment_of,
    network_of,
)
from fedbandits.simulation.episodes import EpisodeBook
from fedbandits.simulation.gauges import STANDARD, Coverage, Gauge
from fedbandits.simulation.instances import smallest_gap, world_of
from fedbandits.simulation.memory import check_memory
from fedbandits.simulation.options import Options, RunOptions
from fedbandits.simulation.rounds import play
from fedbandits.simulation.trace import Privacy, Trace
from fedbandits.simulation.walking import Walk, walk_for_want_of
from fedbandits.transport.carriers import InProcess, hold
from fedbandits.transport.liars import attacked
from fedbandits.transport.relay import Relay, relay_for

Progress = Callable[[int], None]
"""Told the number of steps done, a few times a second at most."""

_PROGRESS_SECONDS = 0.1


def simulate(
    algorithm: AlgorithmLike,
    environment: EnvironmentLike,
    horizon: int,
    seed: int = 0,
    *,
    progress: Progress | None = None,
    **options: Unpack[Options],
) -> Trace:
    """Run `algorithm` in `environment` for `horizon` steps.

    `seed` fixes the problem instance, the arms, the noise and the algorithm's own draws, each by a stream of its own:
    two algorithms under one seed face the same arms and, for the same choice, the same noise. `network` is for agents
    that talk to each other: one of `fedbandits.network`, its name, or a networkx graph, on which messages then live for
    one hop. `wire=Wire(packed=True)` sends symmetric matrices as triangles. `coverage=True` checks now and then whether
    the agents' confidence ellipsoids contain the truth; `theory=True` evaluates what theory says of the regret at the
    horizon, for algorithms of which it says anything; `gauges` are measurements of your own; `attack` is an `Attack`:
    agents that lie to their server. Algorithm, environment and attack may also be given in words, as on the command
    line.

    >>> import fedbandits as fb
    >>> env = fb.environments.Linear(clients=5, dim=4, arms=6)
    >>> trace = fb.simulate(fb.algorithms.DisLinUCB(threshold=1.0), env, horizon=100, seed=0)
    >>> trace.regret.shape, bool(trace.messages[-1] == trace.syncs[-1] * 2 * 5)
    ((100,), True)
    """
    algorithm, network = algorithm_of(algorithm), network_of(options.get("network"))
    check_network({algorithm.about.name: algorithm}, network)
    options["network"] = network
    simulation = Simulation(algorithm, environment, horizon, seed, **options)
    simulation.run(progress=progress)
    return simulation.trace()


class Simulation(Stateful):
    """A run that can be stopped after any step, saved by `state`, loaded elsewhere and continued.

    `run(steps)` advances; the run is the same however it is divided.
    """

    keeps: ClassVar[tuple[str, ...]] = (
        "at",
        "regret",
        "reward",
        "chance",
        "decisions",
        "syncs",
        "counts",
        "by_agent",
        "ledger",
    )

    def __init__(
        self,
        algorithm: AlgorithmLike,
        environment: EnvironmentLike,
        horizon: int,
        seed: int = 0,
        **options: Unpack[Options],
    ) -> None:
        chosen = RunOptions.of(**options)
        algorithm, environment = algorithm_of(algorithm), environment_of(environment)
        if chosen.network is None:
            check_network({algorithm.about.name: algorithm}, None)
        if horizon < 1:
            raise ConfigError(f"horizon: must be at least 1 (got {horizon})")
        if seed < 0:
            raise ConfigError(f"seed: must not be negative (got {seed})")
        check_memory(algorithm, environment, horizon)
        seeds = seeds_of(seed)
        self.world = world_of(environment, horizon, seeds.world)
        problem = posed(self.world, algorithm, chosen.network, seeds.graph)
        n = problem.agents
        self.honest = np.ones(n, dtype=np.bool_)
        self.attack = chosen.attack
        """Who lies to the server, and how."""
        if chosen.attack is not None:
            self.honest = ~chosen.attack.liars(n, seeds.mishaps)
            algorithm = attacked(algorithm, chosen.attack, seeds.mishaps)
        self.agents = algorithm.agents(problem, n, Streams(seeds.agents, n, common=seeds.common))
        self.server = algorithm.server(problem, n, Streams(seeds.server, 1, common=seeds.common))
        self.ledger = Ledger()
        wire = wire_of(algorithm, problem, chosen.wire)
        self._relay: Relay | None = None
        place = problem.get(Place)
        if place is not None and chosen.network is not None and algorithm.about.topology == "graph":
            faults, absences = chosen.network.faults, self.world.turn(0).reachable is not None
            self._relay = relay_for(place, faults, absences, problem.arms, self.ledger, wire, seeds.mishaps)
        self._carrier = InProcess(self.agents, self.ledger, wire)
        self.horizon = horizon
        self.at = np.zeros((), dtype=np.int64)
        self.regret = np.zeros(horizon)
        self.reward = np.zeros(horizon)
        self.chance = np.zeros(horizon)
        self.decisions = np.zeros(horizon, dtype=np.int64)
        self.syncs = np.zeros(horizon, dtype=np.int64)
        self.counts = np.zeros((horizon, len(DIRECTIONS), len(UNITS)), dtype=np.int64)
        self.by_agent = np.zeros(n)
        self.episodes = EpisodeBook.of(self.world.problem)
        self._algorithm = algorithm
        self._problem = problem
        self._theory = chosen.theory
        self._seconds = 0.0
        self._smallest_gap = smallest_gap(self.world)
        self._earned, self._missed = Recycled(), Recycled()
        self._walk: Walk | None = None
        self._at_hand = False
        self.compiled: bool | None = None
        """Whether turns are played by compiled functions where agents and world offer them; the run is the same. None
        is as soon as that is worth compiling them (`simulation.walking`)."""
        self.ahead = 0
        """How many steps of runs like this one are to follow it."""
        self.played = 0
        """How many steps they have played."""
        wanted = (*((Coverage,) if chosen.coverage else ()), *STANDARD, *chosen.gauges)
        self._gauges: dict[str, Gauge] = {kind.name: gauge for kind in wanted if (gauge := kind.on(self)) is not None}

    @property
    def plays(self) -> bool:
        """Whether turns can be left to compiled functions at all: what agents tell each other can be, too, and no gauge
        has to be read after every step.
        """
        talk = self._relay is None or self._relay.plays(self.agents)
        return talk and all(gauge.steady or gauge.of_episodes for gauge in self._gauges.values())

    def run(self, steps: int | None = None, progress: Progress | None = None) -> None:
        """Advance by `steps` steps, or to the horizon."""
        start = int(self.at)
        end = self.horizon if steps is None else min(self.horizon, start + steps)
        began = told = time.perf_counter()
        compiled = compiling.seconds()
        # matrices here are small: a second thread only waits, and runs in parallel processes would fight for cores
        with _blas().limit(limits=1, user_api="blas"):
            while self.at < end:
                if not self._play(end):
                    self._walk_on()
                if progress is not None and time.perf_counter() - told > _PROGRESS_SECONDS:
                    progress(int(self.at))
                    told = time.perf_counter()
        self._seconds += time.perf_counter() - began - (compiling.seconds() - compiled)
        if progress is not None:
            progress(end)

    def trace(self) -> Trace:
        """What has happened so far."""
        done = slice(0, int(self.at))
        spent = self.agents.spent()
        return Trace(
            regret=np.cumsum(self.regret[done]),
            reward=np.cumsum(self.reward[done]),
            regret_by_client=self.by_agent.copy(),
            chance=np.cumsum(self.chance[done]),
            decisions=np.cumsum(self.decisions[done]),
            syncs=self.syncs[done].copy(),
            counts=self.counts[done].copy(),
            seconds=self._seconds,
            gauges={name: gauge.values[done].copy() for name, gauge in self._gauges.items()},
            portrait=self._portrait(),
            privacy=None if spent is None else Privacy(spent, self.agents.delta, self.agents.protection()),
            bounds=self._bounds(),
            smallest_gap=self._smallest_gap,
        )

    def state(self) -> State:
        """A snapshot of the run, the world, the agents and the server."""
        nested = {
            f"{part}.{name}": array for part, holder in self._parts().items() for name, array in holder.state().items()
        }
        return super().state() | nested

    def load(self, state: Mapping[str, Array]) -> None:
        """Continue the run that `state` was taken from, under the same algorithm, environment and seed."""
        load_whole(self._load, state, before=self.state())

    def _load(self, state: Mapping[str, Array]) -> None:
        parts = self._parts()
        held: dict[str, dict[str, Array]] = {part: {} for part in ("", *parts)}
        for name, array in state.items():
            part, dot, rest = name.partition(".")
            if dot and part in parts:
                held[part][rest] = array
            else:
                held[""][name] = array
        for part, holder in parts.items():
            try:
                holder.load(held[part])
            except ValueError as error:
                raise ValueError(f"{part}: {error}") from error
        super().load(held[""])

    def _portrait(self) -> State:
        found = {} if self.server is None else self.server.portrait()
        shown = self.world.portrait() | self.agents.portrait() | found | portrayed(self.agents.protection())
        truth = self.world.truth(max(int(self.at) - 1, 0))
        if found and truth is not None:
            shown[TRUTH] = np.array(truth.clusters)
        place = self._problem.get(Place)
        if self._relay is not None and place is not None:
            shown[EDGES] = links(place.graph)
        return shown

    def _bounds(self) -> dict[str, float]:
        if not self._theory:
            return {}
        bounds = bounds_of(self._algorithm, self._problem, self.world.mean_rewards())
        return {} if bounds is None else {"upper": bounds.upper, "lower": bounds.lower}

    def _parts(self) -> dict[str, Stateful | Relay]:
        """What keeps a state of its own beside the run's."""
        parts: dict[str, Stateful | Relay | None] = {
            "agents": self.agents,
            "server": self.server,
            "relay": self._relay,
            "world": self.world,
            "episodes": self.episodes,
            **{f"gauge-{name}": gauge for name, gauge in self._gauges.items()},
        }
        return {name: part for name, part in parts.items() if part is not None}

    def _play(self, end: int) -> bool:
        """Let compiled functions play turns before `end`, as far as they go, and hear whoever calls then; False where
        this step cannot be played so.
        """
        step = int(self.at)
        resting = [gauge for gauge in self._gauges.values() if gauge.steady]
        if self.compiled is False or not self.plays or (resting and step == 0):
            return False
        ahead = end - step + self.ahead
        if self._does_without(ahead):
            return False
        agents = self.agents.compiled()
        block = None if agents is None else self.world.block(step)
        if block is None:
            return False
        server, books = self._spoken_for(step)
        heard = books is not None and priced(books) and not resting
        if self._peers is not None and not (heard and block.who.shape[1] == len(self.agents)):
            return False
        start = step - block.first
        rows = min(len(block.who), end - block.first)
        if self.server is not None and not heard:
            # who calls before anybody has decided is heard in every step, until it calls no longer
            patience = 0 if self.agents.calling().any() else patience_of(self.server)
            rows = min(rows, start + 1 + patience)
        rewards, regrets = self._earned.empty(block.who.shape), self._missed.empty(block.who.shape)
        over = np.empty((0, 0) if self.episodes is None else block.who.shape, dtype=np.bool_)
        earned = rewards, regrets, over, self.by_agent
        turns = agents, server, heard, block, start, rows, earned, books
        if self._walk is None and not self._at_hand:
            self._walk = walk_for_want_of(play, turns, block.who.shape[1])
            if self._does_without(ahead):
                return False
        self._walk, self._at_hand = None, True
        done, failed, ended = play(*turns)
        if failed >= 0:
            if done == start and failed == block.who[start, 0]:
                return False  # nothing has happened yet: the agents' own methods know what to do, or what is wrong
            raise ValueError(
                f"step {block.first + done}: what agent {failed} sees, or what it earns, is not finite; it has no score"
            )
        if ended == FAILED:
            raise ValueError(
                f"step {block.first + done}: what agents were told is not positive definite, or not finite"
            )
        del agents, turns  # agents may be given more room now: nobody holds the old one
        self.agents.tend()
        played, after = slice(start, done), slice(step, block.first + done)
        self.regret[after] = _of_steps(regrets[played])
        self.reward[after] = _of_steps(rewards[played])
        self.chance[after] = _of_steps(block.chance[played])
        self.decisions[after] = block.who.shape[1]
        if not heard:
            self.syncs[after] = self.ledger.syncs
            self.counts[after] = self.ledger.counts
        elif self.server is not None:
            self.server.tend()
        elif self._peers is not None:
            self._peers.take_up(server, step)
        if ended == PENDING:
            self._conclude(block.who[done - 1], done - start, heard)
        if self.episodes is not None:
            self._follow(self.episodes, step, block.who[played], over[played], rewards[played], regrets[played])
        self.at[...] = after.stop
        self.played += done - start
        for gauge in resting:
            gauge.pass_over(step, after.stop - 1)
            gauge.take(after.stop - 1)
        return True

    def _conclude(self, learned: IntArray, steps: int, heard: bool) -> None:
        """Let server or peers talk after the last of so many `steps` that were played without them, in which these have
        `learned`; whether they were `heard` after the others.
        """
        last = int(self.at) + steps - 1
        if self.server is not None:
            if not heard:
                self.server.passed(steps - 1)
            self._carrier.reachable = None
            self._hold(np.flatnonzero(self.agents.calling()))
        elif self._peers is not None:
            self._peers.round(self.agents, learned, last)
        self.syncs[last] = self.ledger.syncs
        self.counts[last] = self.ledger.counts

    def _follow(
        self, book: EpisodeBook, step: int, who: IntArray, over: BoolArray, rewards: FloatArray, regrets: FloatArray
    ) -> None:
        """Note what was played from `step` on, rows of (B, w), in the book and on the gauges that read it."""
        gauges = [gauge for gauge in self._gauges.values() if gauge.of_episodes]
        at = 0
        while at < len(who):
            shown = [gauge.read(step + at) for gauge in gauges]
            noted = book.follow(who, over, rewards, regrets, at)
            for gauge, value in zip(gauges, shown, strict=True):
                gauge.values[step + at : step + noted - 1] = value
                gauge.take(step + noted - 1)
            at = noted

    @property
    def _peers(self) -> Relay | None:
        """What carries from agent to agent what they tell each other; None where they tell nothing."""
        return None if self._relay is None or self._relay.is_silent else self._relay

    def _spoken_for(self, step: int) -> tuple[Any, Books | None]:
        """The server for compiled functions, or what carries letters from `step` on, and what they count in; None where
        it has to be given the floor here.
        """
        if self._peers is not None:
            post = self._peers.post(self.agents, step)
            return post, None if post is None else self._books_of(self._peers.speech)
        answering = None if self.server is None else self.agents.answering()
        if self.server is None or answering is None:
            return None, None
        server = self.server.compiled(answering)
        if server is None:
            return None, None
        return server, self._books_of(self.server.speech)

    def _books_of(self, speech: Speech) -> Books:
        return books_of(self.ledger, self._carrier.wire, speech, self.counts, self.syncs)

    def _hold(self, callers: IntArray) -> None:
        """Give the server the floor; courses that it opens are played at once, unless every step is to be seen."""
        if self.server is not None:
            self._carrier.pursues = self.compiled is not False and self.server.pursues
            hold(self.server, callers, self._carrier)
            self._carrier.pursues = False

    def _does_without(self, ahead: int) -> bool:
        """Whether a loop is not at hand that is not worth compiling for `ahead` steps."""
        return self._walk is not None and self.compiled is None and not self._walk.is_enough(ahead)

    def _walk_on(self) -> None:
        """A step without compiled functions, the time of which counts where these are not worth compiling yet, unless
        something else was compiled in it.
        """
        began, compiled = time.process_time(), compiling.seconds()
        self._step(int(self.at))
        if self._walk is not None and compiling.seconds() == compiled:
            self._walk.note(time.process_time() - began)

    def _step(self, step: int) -> None:
        turn = turn_for(self.world, step, self.agents)
        picks = self.agents.choose(turn.who, turn.arms)
        outcome = self.world.pay(step, picks)
        self.agents.learn(turn.who, turn.arms, picks, outcome.rewards)
        if self._relay is not None:
            self._relay.round(self.agents, turn.who, step, turn.reachable)
        elif self.server is not None:
            self._carrier.reachable = turn.reachable
            calling = self.agents.calling()
            if turn.reachable is not None:
                calling = calling & turn.reachable
            self._hold(np.flatnonzero(calling))
        self.regret[step] = outcome.regrets.sum()
        self.reward[step] = outcome.rewards.sum()
        self.chance[step] = outcome.chance.sum()
        self.decisions[step] = len(turn.who)
        self.syncs[step] = self.ledger.syncs
        self.counts[step] = self.ledger.counts
        self.by_agent[turn.who] += outcome.regrets
        if self.episodes is not None:
            self.episodes.note(turn, outcome)
        for gauge in self._gauges.values():
            gauge.take(step)
        self.at[...] = step + 1


def posed(
    world: World, algorithm: Algorithm, network: Network | None, seed: np.random.SeedSequence | None = None
) -> Problem:
    """The problem that `world` poses to `algorithm`, on the graph that `network` draws by `seed`.

    An oracle is told the truth, nobody else is.
    """
    problem, truth = world.problem, world.truth() if algorithm.about.oracle else None
    if truth is not None:
        problem = problem.knowing(truth)
    if network is None:
        return problem
    graph = network.graph(problem.agents, seed or np.random.SeedSequence(0))
    life, hops = network.life(graph), algorithm.about.hops
    share = network.faults.contamination * network.faults.byzantine
    known = problem.get(Contamination, Contamination())
    return problem.knowing(
        Place(graph, life if hops is None else min(life, hops)), Contamination(max(known.share, share))
    )


def _of_steps(decisions: FloatArray) -> FloatArray:
    """(B, w) -> (B,) sums."""
    return decisions[:, 0] if decisions.shape[1] == 1 else np.asarray(decisions.sum(axis=1))


@cache
def _blas() -> ThreadpoolController:
    """Whose threads are limited; looking for libraries anew takes as long as a thousand decisions."""
    return ThreadpoolController()
