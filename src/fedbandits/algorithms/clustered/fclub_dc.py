"""FCLUB-DC: federated online clustering with delayed communication."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal, NamedTuple

import numpy as np
from pydantic import Field

from fedbandits.algorithms.clustered.clusters import partition
from fedbandits.algorithms.clustered.grouping import components, distances, shrinking
from fedbandits.algorithms.linear.async_linucb import AsyncParameters
from fedbandits.contract.arrays import FloatArray, IntArray, State
from fedbandits.contract.booking import Books, Speech
from fedbandits.contract.catalogue import About
from fedbandits.contract.compiled import FAILED, HEARD, PENDING, attend, hear, stands_for, untouched
from fedbandits.contract.depending import depending
from fedbandits.contract.messages import Conversation, Message
from fedbandits.contract.parameters import parameters
from fedbandits.contract.problem import Problem
from fedbandits.contract.server import Server
from fedbandits.contract.streams import Streams
from fedbandits.linalg import kernels
from fedbandits.linalg.borrowing import borrowed
from fedbandits.linalg.jit import jit_inside, jit_part
from fedbandits.models.late import add_up, catch_up, find_callers, late, logdet_of, look_again
from fedbandits.models.news import SPEECH, Lags, book, note_uploads, takes_out, tell_news
from fedbandits.models.optimistic import OptimisticAgents, Optimists, WidthRule
from fedbandits.models.paced import by_schedule
from fedbandits.models.ridge import RidgeSums, Sharers, solve
from fedbandits.models.sharing import COLLECT, FRESH, NEWS, POOL, told
from fedbandits.models.statistics import Statistics
from fedbandits.models.triggers import Watch
from fedbandits.models.width import BY_COUNT, Radius, Width


@parameters
class FCLUBDC(AsyncParameters):
    """Federated online clustering of bandits with delayed communication (Liu, Zhao, Yu, Li & Lui, UAI 2022).

    One agent per local server. Inside a global cluster agents talk as in AsyncLinUCB: an agent uploads when its
    log-determinant has grown by log `gamma_up`, and is sent what it lacks of its cluster's pool once that is worth
    log `gamma_down`. At the end of phases of 1, 2, 4, 8, ... steps everybody uploads the rest, and the server links two
    agents iff

        ||theta_i - theta_j|| < c (f(m_i) + f(m_j)),   f(m) = sqrt((1 + log(1 + m)) / (1 + m)),

    with ridge estimates from their own observations and c = `separation`; connected components are the new clusters,
    so that agents are merged as well as separated. (The released code never leaves the all-singletons state; it also
    scales the width by x^T M^-1 x instead of its root.) If the partition changed, everybody receives its cluster's
    sums.

    `width` is one of the family's (`models.width`), or ``"published"``: 1/2 sqrt(2 log(2/1.5) + d log(3 + m/d)),
    which is for noise of 1/2 whatever the problem's is. The released code takes that with ridge 2 and c = 2: where
    noise is 0.1 its width is several times too wide, and everybody stays in one component for the first hundred steps.

    Guarantee: the publication's bound is for its own phases and constants; none is claimed for this variant.
    """

    ridge: Annotated[float, Field(gt=0, allow_inf_nan=False)] = 0.1
    width: Width | Literal["published"] = "theory"  # type: ignore[assignment]
    gamma_up: Annotated[float, Field(ge=1)] = 1.2
    gamma_down: Annotated[float, Field(ge=1)] = 1.2
    separation: Annotated[float, Field(gt=0, allow_inf_nan=False)] = 1.0

    about: ClassVar[About] = depending(
        About(
            name="fclub-dc",
            family="clustered",
            topology="star",
            talks="as async-linucb inside clusters; everybody at the end of doubling phases",
            says=(COLLECT, FRESH, NEWS, POOL),
            guarantee="none claimed for this variant",
            source="Liu, Zhao, Yu, Li & Lui, UAI 2022",
            environment="clustered-linear",
        ),
        by_schedule,
    )

    @property
    def tells_counts(self) -> bool:
        """Counts travel: the test and the width need them."""
        return True

    def widths(self, problem: Problem, dim: int) -> WidthRule:
        """The family's exploration widths, or FCLUB's own."""
        if self.width != "published":
            return super().widths(problem, dim)
        # d log(3 + m/d) = d log 3 + d log(1 + m/(3d))
        base = float(2 * np.log(2 / 1.5) + dim * np.log(3))
        return Radius(BY_COUNT, 0.5, base, dim=float(dim), scale=3.0 * dim)

    def agents(self, problem: Problem, n: int, rng: Streams) -> OptimisticAgents:
        """n agents with the upload trigger."""
        return self.optimists(problem, n, self.upload)

    def server(self, problem: Problem, n: int, rng: Streams) -> FCLUBServer:
        """A server with pools for clusters, and phases."""
        return FCLUBServer(self, n, problem.dim)


class FCLUBServer(Server):
    """`own` (n) are each agent's observations as uploaded, `labels` (n,) their clusters, `pools` (n) the clusters'
    sums; `known` (n) is what of its cluster's pool each agent has, `unseen` (n,) how many uploads it lacks. `moved`
    (n,) marks agents that have yet to be told of a new partition. `step` counts towards the phase's end.
    """

    keeps: ClassVar[tuple[str, ...]] = (
        "own",
        "labels",
        "pools",
        "pool_logdet",
        "known",
        "known_logdet",
        "unseen",
        "moved",
        "step",
    )
    retracts: ClassVar[bool] = True

    def __init__(self, parameters: FCLUBDC, n: int, dim: int) -> None:
        self._ridge = parameters.ridge
        self._separation = parameters.separation
        self._threshold = np.log(parameters.gamma_down)
        self.own = Statistics(n, dim)
        self.labels = np.zeros(n, dtype=np.int64)
        self.pools = Statistics(n, dim)
        self.pool_logdet = np.full(n, dim * np.log(parameters.ridge))
        self.known = Statistics(n, dim)
        self.known_logdet = np.full(n, dim * np.log(parameters.ridge))
        self.unseen = np.zeros(n, dtype=np.int64)
        self.moved = np.zeros(n, dtype=np.bool_)
        self.step = np.zeros((), dtype=np.int64)
        self._total: RidgeSums | None = None

    def converse(self, callers: IntArray) -> Conversation:
        """Uploads, what is lacking downwards, and at the end of a phase the test of everybody."""
        self.step += 1
        # phases of 1, 2, 4, ... steps end at steps 1, 3, 7, ...
        if int(self.step) & (int(self.step) + 1) == 0:
            yield from self._detect()
        elif len(callers):
            yield from self._relay(callers)
        else:
            return
        yield from self._tell_moved()

    def patience(self) -> int:
        """See `Server`: the steps before the last one of the phase."""
        ends = (1 << (int(self.step) + 1).bit_length()) - 1
        return ends - int(self.step) - 1

    def passed(self, steps: int) -> None:
        """See `Server`."""
        self.step += steps

    speech: ClassVar[Speech] = SPEECH

    def compiled(self, answering: Any) -> Any:
        """See `Server`: with agents that share sums, as long as all know their clusters; phases end elsewhere."""
        if not isinstance(answering, Sharers) or not untouched(self, FCLUBServer, "converse") or self.moved.any():
            return None
        if self._total is None:
            self._total = RidgeSums(*Statistics(1, self.known.moment.shape[1]))
        pools, known = RidgeSums(*self.pools), RidgeSums(*self.known)
        lags = Lags(
            late(answering),
            pools,
            self.labels,
            self.pool_logdet,
            known,
            self.known_logdet,
            self.unseen,
            float(self._threshold),
        )
        return FCLUBTalk(lags, RidgeSums(*self.own), self._total, self.step.reshape(1))

    def portrait(self) -> State:
        """The clusters, and as a graph who is in one with whom."""
        alike = self.labels[:, None] == self.labels[None, :]
        return {"graph": alike & ~np.eye(len(alike), dtype=np.bool_), "clusters": partition(self.labels)}

    def _relay(self, callers: IntArray) -> Conversation:
        fresh = yield Message(COLLECT.kind, callers)
        if len(fresh.who) == 0:
            return
        self._take_in(fresh)
        behind = self.pool_logdet[self.labels] - self.known_logdet
        taken_out = bool((np.trace(fresh.arrays["gram"], axis1=1, axis2=2) < 0).any())
        lacking = ((behind > self._threshold) | taken_out) & (self.unseen > 0) & ~self.moved
        late = np.flatnonzero(lacking)
        if len(late):
            heard = yield Message(
                NEWS.kind, late, self.known.lacking(late, self.pools, self.labels[late], counted=True)
            )
            self._now_knows(heard.who)

    def _detect(self) -> Conversation:
        fresh = yield Message(COLLECT.kind, np.arange(len(self.labels)))
        if len(fresh.who):
            self._take_in(fresh)
        theta = solve(self.own.gram, self.own.moment, self._ridge)[1]
        reach = shrinking(self.own.count)
        labels = components(distances(theta) < self._separation * (reach[:, None] + reach[None, :]))
        if (labels != self.labels).any():
            self.labels = labels
            self.moved[:] = True
            everybody = np.arange(len(labels))
            self.pools.clear(everybody)
            self._pool(everybody, *self.own)

    def _tell_moved(self) -> Conversation:
        moved = np.flatnonzero(self.moved)
        if len(moved):
            heard = yield Message(POOL.kind, moved, self.pools.rows(self.labels[moved], counted=True))
            self._now_knows(heard.who)
            self.moved[heard.who] = False

    def _take_in(self, fresh: Message) -> None:
        self.own.merge(fresh.who, *told(fresh))
        self._pool(fresh.who, *told(fresh))
        self.known.merge(fresh.who, *told(fresh))
        self.known_logdet[fresh.who] = kernels.log_determinants(self.known.gram[fresh.who], self._ridge)
        uploads = np.bincount(self.labels[fresh.who], minlength=len(self.labels))
        self.unseen += uploads[self.labels]
        self.unseen[fresh.who] -= 1

    def _pool(self, who: IntArray, gram: FloatArray, moment: FloatArray, count: FloatArray) -> None:
        """Add shares of `who` to the pools of their clusters."""
        labels = self.labels[who]
        self.pools.scatter(labels, gram, moment, count)
        touched = np.unique(labels)
        self.pool_logdet[touched] = kernels.log_determinants(self.pools.gram[touched], self._ridge)

    def _now_knows(self, who: IntArray) -> None:
        labels = self.labels[who]
        self.known.copy_from(who, self.pools, labels)
        self.known_logdet[who] = self.pool_logdet[labels]
        self.unseen[who] = 0


class FCLUBTalk(NamedTuple):
    """An `FCLUBServer` and its agents, for compiled conversations."""

    lags: Lags
    own: RidgeSums
    total: RidgeSums
    """(1, ...) room."""
    step: IntArray
    """(1,)."""


@stands_for(attend, FCLUBTalk)
@jit_inside
def _attend(server: FCLUBTalk, i: int) -> bool:
    return catch_up(server.lags.late, i)


@stands_for(hear, FCLUBTalk)
@jit_inside
def _hear(server: FCLUBTalk, agents: Optimists, due: bool, books: Books) -> int:
    late, now = server.lags.late, server.step[0] + 1
    callers = find_callers(late, agents, due)
    if now & (now + 1) == 0 or takes_out(late, callers):
        return PENDING
    server.step[0] = now
    if callers == 0:
        return HEARD
    told = _exchange(server, agents.watch, callers)
    if told < 0:
        return FAILED
    book(books, callers, told)
    look_again(late, agents)
    return HEARD


@jit_part
def _exchange(server: FCLUBTalk, watch: Watch, callers: int) -> int:
    """What `FCLUBServer._relay` does with that many callers; how many were told something, or -1 where nothing follows
    from it.
    """
    server = borrowed(server)
    lags, late, own = server.lags, server.lags.late, server.own
    pools, fresh, ridge = lags.pools, late.agents.fresh, late.agents.ridge
    d = own.moment.shape[1]
    if not note_uploads(lags, callers):
        return -1
    for a in range(callers):
        i = late.callers[a]
        row = lags.rows[i]
        for j in range(d):
            for k in range(d):
                own.gram[i, j, k] += fresh.gram[i, j, k]
                pools.gram[row, j, k] += fresh.gram[i, j, k]
            own.moment[i, j] += fresh.moment[i, j]
            pools.moment[row, j] += fresh.moment[i, j]
        own.seen[i] += fresh.seen[i]
        pools.seen[row] += fresh.seen[i]
    add_up(late.agents, late.callers, callers, True, server.total)
    for row in range(len(pools.seen)):
        touched = False
        for a in range(callers):
            touched |= lags.rows[late.callers[a]] == row
        if touched:
            lags.pool_logdet[row] = logdet_of(pools, row, ridge, late.room)
            if not abs(lags.pool_logdet[row]) < np.inf:
                return -1
    return tell_news(lags, watch)
