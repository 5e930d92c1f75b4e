"""FedLinUCB-Network: private linear bandits without a server, on a graph."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Annotated, ClassVar, Literal

import numpy as np
from pydantic import Field, model_validator

from fedbandits.algorithms.linear.parameters import LinearParameters
from fedbandits.algorithms.private.network_agents import NetworkAgents
from fedbandits.algorithms.private.parameters import ActingParameters, BudgetParameters
from fedbandits.algorithms.private.privatizer import Privatizer, Sums, spread_over
from fedbandits.channel.gaussian import Gaussian
from fedbandits.contract.arrays import FloatArray, IntArray
from fedbandits.contract.catalogue import About
from fedbandits.contract.depending import depending
from fedbandits.contract.errors import ConfigError
from fedbandits.contract.facts import Perturbation, Place
from fedbandits.contract.parameters import parameters
from fedbandits.contract.problem import Problem
from fedbandits.contract.streams import Streams
from fedbandits.contract.wire import Utterance, WireField
from fedbandits.models.limits import longest
from fedbandits.models.noisy_sums import Reading, reading
from fedbandits.models.optimistic import WidthRule
from fedbandits.models.sharing import statistics

PHASE = WireField("phase", dtype="i8")
SYNC = Utterance("sync", "peer", (PHASE, WireField("number", dtype="i8")))
"""A request: whoever hears it, in the sender's clique, tells its sums of that phase, for the so-manieth time."""
STATISTICS = Utterance(
    "statistics", "peer", (PHASE, *(replace(item, semidefinite=False) for item in statistics(adds="total")))
)
"""All that an agent has released of one phase."""
_FOREVER = int(np.iinfo(np.int64).max)


@dataclass(frozen=True, slots=True)
class Moments:
    """When a phase is synchronised: after which of its uses (`turns`), or, without them, when observations since the
    last release times the growth of the log-determinant reach `threshold`; `allowed` times at most.
    """

    turns: IntArray | None
    allowed: int
    threshold: float = math.inf


@dataclass(frozen=True, slots=True)
class Reader:
    """How sums over a clique are read: as `reading` does, or, without noise, as they are.

    `radius` says how far estimates may be off; agents act on `width`, or on `scale` times the radius. `slack` is
    |C| (rho_max - rho_min), what the regulariser of the sums may differ by.
    """

    reading: Reading | None
    radius: WidthRule
    width: float | None
    scale: float
    slack: float

    def read(self, gram: FloatArray, moment: FloatArray) -> tuple[FloatArray, FloatArray]:
        """(w, d, d) and (w, d) -> statistics to go on with."""
        if self.reading is None:
            return gram, moment
        matrix, vector = self.reading.read(gram, moment)
        assert vector is not None
        return matrix, vector

    def widths(self, logdet: FloatArray, count: FloatArray) -> tuple[FloatArray, FloatArray]:
        """(w,) radii, and (w,) what agents act on."""
        radius = self.radius(logdet, count)
        return radius, self.scale * radius if self.width is None else np.full(len(radius), self.width)


@parameters
class FedLinUCBNetwork(BudgetParameters, ActingParameters):
    """Optimism on noisy sums of an agent's clique, told hop by hop (Dubey 2022, algorithm 10).

    Messages live for gamma hops. Agents are divided into cliques C of G_gamma, the graph that joins whoever reaches
    each other; everybody uses what its clique tells alone. Turns are dealt out to gamma *phases* in turn (`phases`
    says another number), each a bandit of its own with statistics, models and releases of its own. An agent in phase g
    plays

        argmax <theta, x> + width ||x||_{V^-1},      theta = V^-1 b,

    V and b being read (`models.noisy_sums`) from the sums that the members of its clique have released of that phase.
    Releases are cumulative: each takes the place of the one before it in the listener's table, so that nothing counts
    twice, and one that is lost is made up for by the next.

    Whoever is due asks its clique for a synchronisation of the phase (`SYNC`). Everybody who has heard of it releases
    and tells its sums (`STATISTICS`) after its next use of the phase; gamma rounds lie between two uses, so that by the
    next but one all members have the same sums, to the last bit. On a complete graph, where one hop is enough, this is
    `fedlinucb-private` with every synchronisation a turn late.

    When: `trigger` "schedule" is the one of the noise stage, counted in uses of a phase: `uploads` of them, from number
    `first` to the share `last` of all and geometrically between, or after `every` so many. "logdet" is the thesis':

        (k + 1) (1 + L^2) [log det(V + U + |C| (rho_max - rho_min) I) - log det(V)] >= D = `threshold`,

    U being an agent's own sums since its last release, of which there were k before this one. It depends on data, and
    the moment tells them, whatever is said: it is refused without `leaky`, and then `spent` is infinite.

    Budget: `epsilon`, `delta`, `mechanism`, `adjacency` and the bounds `arms` and `rewards` are those of the noise
    stage (`channel.gaussian`). Every observation is in one phase of one agent, so that each phase has the whole budget;
    protecting an agent (`unit`) costs sqrt(gamma) times the noise. ``epsilon=None`` is the same without noise.

    `own`: "released", the default, acts on releases of the clique alone, and at random before the first, so that the
    whole transcript is private, whatever the graph does to messages. "recent", as in the thesis, also uses clean own
    data since the last release: for fixed histories only, and `spent`, which is strict, is infinite.

    `constants` "thesis" uses the printed ones: tree, sigma_N, and a regulariser of 2 Lambda for each member, Lambda
    with log(2 n |C| gamma / alpha) for n releases: |C| where the pseudocode has M, as in the proof.

    Guarantee: privacy as above, for any graph, any losses, delays and absences. Theorem 6.3, for own = "recent" and the
    trigger: group regret O(sigma sqrt(M chi gamma T) (d log T + kappa sqrt(d))), chi = chi(G_gamma) the number of
    cliques; on a line that is as good as being alone. None is proved for a schedule, nor for `scale` below 1.

    Phases are for the proof, and dear: each has a share of the data and all of the noise. With one phase instead of
    four, 40 agents on a line have a regret of 30 each in place of 156, at the same budget of 5 (``thesis-6-network``);
    alone and without privacy it is 56. Between synchronisations members then differ in what they have heard.
    """

    own: Literal["released", "recent"] = "released"
    trigger: Literal["schedule", "logdet"] = "schedule"
    threshold: Annotated[float, Field(ge=0)] = 10.0
    phases: Annotated[int, Field(ge=1)] | None = None
    constants: Literal["exact", "thesis"] = "exact"
    leaky: bool = False

    about: ClassVar[About] = depending(
        About(
            name="fedlinucb-network",
            family="private",
            topology="graph",
            talks="by a schedule: a request to its clique, and everybody's sums of one phase in return",
            says=(SYNC, STATISTICS),
            calls="scheduled",
            guarantee="the whole transcript (1, 1e-05)-differentially private in one observation (add-remove); of "
            "regret, none proved for a schedule; O(sqrt(M chi(G_gamma) gamma T)) up to logarithms with the trigger",
            source="Dubey (2022), thesis, algorithm 10",
            private=True,
            environment="gap",
        ),
        lambda self, default: self._entry(default),
    )

    @model_validator(mode="after")
    def _goes_together(self) -> FedLinUCBNetwork:
        if self.unit == "person":
            raise ValueError(
                "unit='person' is for agents that are told whom each observation is about, and those on a network are "
                "not; use 'observation' or 'agent'"
            )
        if self.constants == "thesis" and (self.mechanism not in (None, "tree") or self.unit != "observation"):
            raise ValueError(
                "constants='thesis' are for its tree and for single observations; say mechanism=tree and "
                "unit=observation, or leave constants out"
            )
        if self.trigger == "logdet" and self.every is not None:
            raise ValueError(
                f"trigger='logdet' and every={self.every} both say when to synchronise; leave one of them out"
            )
        if self.trigger == "logdet" and self.epsilon is not None:
            if not self.leaky:
                raise ValueError(
                    "trigger='logdet' depends on data, and the moment tells of them, whatever noise; leave it out, or "
                    "say leaky=true: then nothing is claimed"
                )
            if self.uploads is None:
                raise ValueError(
                    "uploads: how often the trigger fires is not known beforehand; say how often a phase may be "
                    "released, as in uploads=32"
                )
        return self

    def agents(self, problem: Problem, n: int, rng: Streams) -> NetworkAgents:
        """n agents that tell their cliques noisy sums."""
        return NetworkAgents(self, problem, problem.need(Place, by=self.about), n, rng)

    def server(self, problem: Problem, n: int, rng: Streams) -> None:
        """Agents talk to each other."""

    # what its agents are made of

    def phases_at(self, place: Place) -> int:
        """gamma, unless another number was said; one where nobody is heard."""
        return max(1, place.hops) if self.phases is None else self.phases

    def sums(self, problem: Problem, place: Place, n: int) -> Sums:
        """What n agents release."""
        phases = self.phases_at(place)
        if self.epsilon is None:
            return Sums(n * phases, problem.dim, phases)
        posed = self._posed(problem, place, problem.agents)
        leaks = self.trigger == "logdet"
        return Privatizer(self._stage, STATISTICS, posed, n * phases, phases, leaks=leaks)

    def moments(self, problem: Problem, place: Place) -> Moments:
        """When phases are synchronised."""
        if self.trigger == "logdet":
            posed = problem if self.epsilon is None else self._posed(problem, place, problem.agents)
            allowed = _FOREVER if self.uploads is None else self.uploads
            return Moments(None, allowed, self.threshold / (1 + longest(posed) ** 2))
        with self._complaining():
            return Moments(*self._stage.turns(self._phase(problem, place, problem.agents)))

    def reader(self, problem: Problem, place: Place, size: int) -> Reader:
        """How sums over a clique of `size` members are read."""
        certain = LinearParameters(
            ridge=self.ridge, width="theory" if isinstance(self.width, float) else self.width, delta=self.alpha
        )
        posed = self._phase(problem, place, size) if self.epsilon is None else self._posed(problem, place, size)
        noisy = reading(posed, problem.dim)
        low, high = (0.0, 0.0) if noisy is None else noisy.regularisers or (0.0, 0.0)
        return Reader(
            noisy,
            certain.widths(posed, problem.dim),
            self.width if isinstance(self.width, float) else None,
            self.scale,
            size * (high - low),
        )

    @property
    def regularises(self) -> bool:
        """Whether what noise needs lies on sums before there are any."""
        return self.constants == "thesis" and self.epsilon is not None

    @property
    def tells_counts(self) -> bool:
        """Whether counts travel with the sums: only the loose width needs them."""
        return self.width == "loose" and self.epsilon is None

    @property
    def _stage(self) -> Gaussian:
        """The noise stage of one phase, and its schedule."""
        when = "algorithm" if self.trigger == "logdet" else "geometric"
        return self.noise(own=self.own, when=when, constants=self.constants, leaky=self.leaky)

    def _phase(self, problem: Problem, place: Place, agents: int) -> Problem:
        """The problem that one phase is to so many agents."""
        return replace(problem, agents=agents, horizon=math.ceil(problem.horizon / self.phases_at(place)))

    def _posed(self, problem: Problem, place: Place, agents: int) -> Problem:
        """The same, with bounds that observations are cut down to, and what noise does to sums over these agents."""
        stage, phases = self._stage, self.phases_at(place)
        with self._complaining():
            posed = stage.poses(self._phase(problem, place, agents))
        told, times = posed.need(Perturbation, by=self.about), spread_over(stage, phases)
        return posed.knowing(
            replace(
                told,
                matrix=times * told.matrix,
                vector=times * told.vector,
                releases=phases * told.releases,  # so many sums of one agent are to be bounded at once
            )
        )

    @contextmanager
    def _complaining(self) -> Iterator[None]:
        """What the noise stage has to complain of are parameters of this one."""
        try:
            yield
        except ConfigError as error:
            raise ConfigError(str(error).replace("gaussian:", f"{self.about.name}:")) from None

    def _entry(self, default: About) -> About:
        """See `contract.depending`."""
        if self.epsilon is None:
            privacy = "no privacy"
        elif self.trigger == "logdet":
            privacy = "no privacy is claimed: when agents speak depends on data"
        else:
            what = "the whole transcript" if self.own == "released" else "releases, for fixed histories,"
            privacy = (
                f"{what} ({self.epsilon:g}, {self.delta:g})-differentially private in one {self.unit} "
                f"({self.adjacency})"
            )
        _, _, regret = default.guarantee.partition("; ")
        return replace(
            default,
            guarantee=f"{privacy}; {regret}",
            calls="data" if self.trigger == "logdet" else "scheduled",
            private=self.epsilon is not None,
        )
