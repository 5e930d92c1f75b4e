"""AsyncLinUCB: agents upload when they have news, the server downloads to those who lack much."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, NamedTuple

import numpy as np
from pydantic import Field

from fedbandits.algorithms.linear.parameters import LinearParameters
from fedbandits.contract.arrays import IntArray
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
from fedbandits.models.late import add_up, catch_up, find_callers, late, logdet_of, look_again, merge_total
from fedbandits.models.news import SPEECH, Lags, book, note_uploads, takes_out, tell_news
from fedbandits.models.optimistic import OptimisticAgents, Optimists
from fedbandits.models.paced import Paced, by_schedule
from fedbandits.models.ridge import RidgeSums, Sharers
from fedbandits.models.sharing import COLLECT, FRESH, NEWS, told
from fedbandits.models.statistics import Statistics
from fedbandits.models.triggers import Trigger, Watch, grown


@parameters
class AsyncParameters(Paced, LinearParameters):
    """The two thresholds of asynchronous uploads and downloads: 1 talks always, infinity never. With `every` b an agent
    uploads after b own turns instead (`models.paced`).
    """

    gamma_up: Annotated[float, Field(ge=1)] = 2.0
    gamma_down: Annotated[float, Field(ge=1)] = 2.0

    by_data: ClassVar[str] = "gamma_up"

    @property
    def upload(self) -> Trigger:
        """Fires where what was not uploaded raises the determinant by more than gamma_up, or by a schedule."""
        return self.paced(Trigger(grown, float(np.log(self.gamma_up)), strict=True))


@parameters
class AsyncLinUCB(AsyncParameters):
    """Asynchronous LinUCB (Li & Wang, AISTATS 2022).

    Agent i acts on (A_i, b_i), all it knows; (dA_i, db_i) is the part it has not uploaded. The server keeps the pool
    A_s and, for each agent j, what of it has not reached j, dA_-j.

    - upload: agent i calls when det(A_i + lambda I) / det(A_i - dA_i + lambda I) > `gamma_up`, and sends (dA_i, db_i);
    - download: the server then sends (dA_-j, db_-j) to every agent j with
      det(A_s + lambda I) / det(A_s - dA_-j + lambda I) > `gamma_down`.

    Each transfer is one message of d^2 + d scalars.

    Guarantee: for one agent at a time, gamma_up = gamma_down = exp(1/n) and the theory width, regret O(d sqrt(T) log T)
    over T decisions in total with O(n^2 d log T) transfers. Larger gammas, such as the default, trade regret for fewer
    transfers; agents that call in the same step are pooled together, which the analysis does not cover.
    """

    about: ClassVar[About] = depending(
        About(
            name="async-linucb",
            family="linear",
            topology="star",
            talks="one agent up when det V grew by gamma_up; down to each agent that lacks gamma_down",
            says=(COLLECT, FRESH, NEWS),
            guarantee="regret O(d sqrt(T) log T), O(n^2 d log T) transfers, one agent at a time, gammas exp(1/n)",
            source="Li & Wang, AISTATS 2022",
        ),
        by_schedule,
    )

    def agents(self, problem: Problem, n: int, rng: Streams) -> OptimisticAgents:
        """n agents with the upload trigger."""
        return self.optimists(problem, n, self.upload)

    def server(self, problem: Problem, n: int, rng: Streams) -> AsyncServer:
        """A server with the download trigger."""
        return AsyncServer(self, n, problem.dim)


class AsyncServer(Server):
    """Pools uploads and sends each agent what it lacks, once that is enough.

    `known` holds A_s - dA_-j for each agent j: what of the pool it has. An upload then changes one row instead of all
    the others. `unseen` (n,) counts the uploads that have not reached j, so that an agent lacking nothing is
    never sent rounding errors. That something was taken out of the pool is told to all at once.
    """

    keeps: ClassVar[tuple[str, ...]] = ("pool", "known", "known_logdet", "unseen")
    retracts: ClassVar[bool] = True
    waits: ClassVar[bool] = True

    def __init__(self, parameters: AsyncParameters, n: int, dim: int) -> None:
        self._parameters = parameters
        self._threshold = np.log(parameters.gamma_down)
        self.pool = Statistics(1, dim)
        self.known = Statistics(n, dim)
        self.known_logdet = np.full(n, dim * np.log(parameters.ridge))
        self.unseen = np.zeros(n, dtype=np.int64)
        self._room: tuple[IntArray, RidgeSums] | None = None

    def converse(self, callers: IntArray) -> Conversation:
        """Collect from the callers, then tell those who lack enough."""
        if len(callers) == 0:
            return
        fresh = yield Message(COLLECT.kind, callers)
        if len(fresh.who) == 0:
            return
        ridge = self._parameters.ridge
        shares = told(fresh)
        taken_out = self.pool.merge_all(0, *shares)
        self.known.merge(fresh.who, *shares)
        self.known_logdet[fresh.who] = kernels.log_determinants(self.known.gram[fresh.who], ridge)
        self.unseen += len(fresh.who)
        self.unseen[fresh.who] -= 1

        pooled = kernels.log_determinants(self.pool.gram, ridge)[0]
        lacking = ((pooled - self.known_logdet > self._threshold) | taken_out) & (self.unseen > 0)
        late = np.flatnonzero(lacking)
        if len(late) == 0:
            return
        the_pool = np.zeros_like(late)
        news = self.known.lacking(late, self.pool, the_pool, counted=self._parameters.tells_counts)
        reached = yield Message(NEWS.kind, late, news)
        self.known.copy_from(reached.who, self.pool, the_pool[: len(reached.who)])
        self.known_logdet[reached.who] = pooled
        self.unseen[reached.who] = 0

    speech: ClassVar[Speech] = SPEECH

    def compiled(self, answering: Any) -> Any:
        """See `Server`: with agents that share sums."""
        if not isinstance(answering, Sharers) or not untouched(self, AsyncServer, "converse"):
            return None
        if self._room is None:
            n, d = self.known.moment.shape
            self._room = np.zeros(n, np.int64), RidgeSums(*Statistics(1, d))
        rows, total = self._room
        pool, known = RidgeSums(*self.pool), RidgeSums(*self.known)
        threshold = float(self._threshold)
        lags = Lags(late(answering), pool, rows, np.empty(1), known, self.known_logdet, self.unseen, threshold)
        return AsyncTalk(lags, total)


class AsyncTalk(NamedTuple):
    """An `AsyncServer` and its agents, for compiled conversations."""

    lags: Lags
    total: RidgeSums
    """(1, ...) room for the sum of what is handed over."""


@stands_for(attend, AsyncTalk)
@jit_inside
def _attend(server: AsyncTalk, i: int) -> bool:
    return catch_up(server.lags.late, i)


@stands_for(hear, AsyncTalk)
@jit_inside
def _hear(server: AsyncTalk, agents: Optimists, due: bool, books: Books) -> int:
    late = server.lags.late
    callers = find_callers(late, agents, due)
    if callers == 0:
        return HEARD
    if takes_out(late, callers):
        return PENDING
    told = _exchange(server, agents.watch, callers)
    if told < 0:
        return FAILED
    book(books, callers, told)
    look_again(late, agents)
    return HEARD


@jit_part
def _exchange(server: AsyncTalk, watch: Watch, callers: int) -> int:
    """What `AsyncServer.converse` does with that many callers; how many were told something, or -1 where nothing
    follows from it.
    """
    server = borrowed(server)
    lags, late = server.lags, server.lags.late
    if not note_uploads(lags, callers):
        return -1
    add_up(late.agents, late.callers, callers, True, server.total)
    merge_total(lags.pools, 0, server.total)
    lags.pool_logdet[0] = logdet_of(lags.pools, 0, late.agents.ridge, late.room)
    if not abs(lags.pool_logdet[0]) < np.inf:
        return -1
    return tell_news(lags, watch)
