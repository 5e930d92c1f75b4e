"""Agents that plan together with their team, each by itself and all alike."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from fedbandits.algorithms.planning.games.messages import EPISODES, REWARDS
from fedbandits.contract.arrays import (
    Array,
    FloatArray,
    IntArray,
    check_arms,
    check_feedback,
    check_finite,
)
from fedbandits.contract.messages import Inbox, Message
from fedbandits.contract.population import Population
from fedbandits.contract.problem import Problem
from fedbandits.contract.streams import Streams
from fedbandits.contract.wire import WireError
from fedbandits.linalg import joint_iteration
from fedbandits.models.joint_history import LOST, USED, WAITS, JointHistory

if TYPE_CHECKING:
    from fedbandits.algorithms.planning.games.mg_lsvi import MGLSVI


class TeamPlanners(Population):
    """n agents in teams. An agent computes the joint action of its whole team, and takes its own part in it.

    `history` is what it knows of its team's episodes (`models.joint_history`); `models` are the regressions of all
    stages over everything that was done, whose growth is that since it last told its rewards; `known` (n, H, p, p)
    are sums Phi Phi^T over the episodes that it plans with, and `covariance` (n, H, p, p) = (lambda I + known)^-1.
    `sent` (n,) is of how many episodes it has told its rewards.

    Members see the same, draw the same scalarisations and take in the same rewards, so that they compute the same joint
    actions as long as they are in step and nothing that they say is lost. In a simulation plans of members who know the
    same are hence made once.
    """

    keeps: ClassVar[tuple[str, ...]] = ("history", "models", "known", "covariance", "sent")

    def __init__(self, given: MGLSVI, problem: Problem, teams: Sequence[IntArray], n: int, rng: Streams) -> None:
        super().__init__(n)
        most, length = max(map(len, teams)), given.length(problem)
        self._dim, self._agents = problem.dim, problem.agents
        self._block = problem.dim // problem.agents
        self._rng = rng
        self._given = given
        self._beta, self._most = given.beta(problem), given.most(problem)
        self._threshold = given.log_threshold(problem)
        self._teams = [next(team for team in teams if identity in team) for identity in rng.identities]
        """The members of each agent's team, itself among them, ascending."""
        self._own = np.array(
            [int(np.searchsorted(team, me)) for team, me in zip(self._teams, rng.identities, strict=True)]
        )
        self._form = [given.form(problem, len(team)) for team in self._teams]
        self.history = JointHistory(n, length, most, self._block)
        self.models = given.models(problem, n)
        self.known = np.zeros((n, length, self.models.dim, self.models.dim))
        self.covariance = np.array(self.models.inverse).reshape(self.known.shape)
        self.sent = np.zeros(n, dtype=np.int64)
        self._length = length
        self._weights = np.zeros((n, length, self.models.dim))
        self._planned = np.full(n, -1)
        """For which episode each agent has a plan."""

    # decisions

    def choose(self, who: IntArray, arms: FloatArray) -> IntArray:
        """Each agent's own part of the joint action with the highest index."""
        check_arms(who, arms, self._n, self._dim)
        check_finite("arms", who, arms)
        joint = self.jointly(who, arms)
        return np.array([acts[self._own[a]] for a, acts in zip(who, joint, strict=True)], dtype=np.int64)

    def jointly(self, who: IntArray, arms: FloatArray) -> list[IntArray]:
        """For each of `who` the joint action of its team, (m,) actions of its members."""
        self._plan(who)
        stage = self.history.stage(who)
        joint = []
        for i, a in enumerate(who):
            h = stage[i]
            weights, inverse = self._weights[a, h], self.covariance[a, h]
            preference, form = self.preference(a, int(self.history.count[a])), self._form[a]
            blocks = self._blocks(a, arms[i])
            joint.append(
                joint_iteration.choose_jointly(
                    blocks, weights, inverse, self._beta, preference, form, self._given.exact
                )
            )
        return joint

    def learn(self, who: IntArray, arms: FloatArray, picks: IntArray, rewards: FloatArray) -> None:
        """One stage of each of `who`, or the end of its episode: what it did itself, and what its team was to do."""
        check_feedback(who, arms, picks, rewards, self._n, self._dim)
        check_finite("arms", who, arms)
        if len(who) == 0:
            return
        over = ~arms.any(axis=(1, 2))
        going = np.flatnonzero(~over)
        joint = self.jointly(who[going], arms[going])
        done = over & (self.history.stage(who) > 0)
        for i, acts in zip(going, joint, strict=True):
            done[i] = self._note(int(who[i]), arms[i], acts, int(picks[i]), float(rewards[i]))
        self._close(who[done])

    def preference(self, agent: int, episode: int) -> FloatArray:
        """(m,) the scalarisation of an episode, of the members of `agent`'s team alone: they sum to 1."""
        weights = self._given.scalarisation(self._rng, episode, self._agents)[self._teams[agent]]
        return np.asarray(weights / weights.sum())

    def _note(self, a: int, arms: FloatArray, acts: IntArray, pick: int, reward: float) -> bool:
        """Write down one stage of agent `a`; returns whether its episode is over."""
        history, me = self.history, self._own[a]
        e, one = history.count[a], np.array([a])
        h = history.stages[a, e]
        for u, block in enumerate(self._blocks(a, arms)):
            history.seen[a, e, h, u] = history.blocks.intern(one, block[None])[0]
        history.did[a, e, h, : len(acts)] = acts
        history.did[a, e, h, me] = pick
        history.reward[a, e, h, me] = reward
        history.stages[a, e] = h + 1
        return bool(h + 1 == self._length)

    def _close(self, who: IntArray) -> None:
        for a in who:
            self._count_in(int(a), int(self.history.count[a]))
        self.history.close(who)
        alone = np.array([a for a in who if len(self._teams[a]) == 1], dtype=np.int64)
        for a in self._due(alone):
            self._tell(int(a))
            self._take_in(int(a))

    def _blocks(self, a: int, arms: FloatArray) -> FloatArray:
        """(m, K, b) of the members of `a`'s team."""
        whole = arms.reshape(len(arms), self._agents, self._block)
        return np.ascontiguousarray(whole[:, self._teams[a]].swapaxes(0, 1))

    # plans

    def _plan(self, who: IntArray) -> None:
        """Solve all stages anew for those of `who` whose scalarisation is another one, or who know more."""
        behind = [int(a) for a in who if self._planned[a] != self.history.count[a]]
        made: dict[tuple[int, int, bytes], int] = {}
        for a in behind:
            episode = int(self.history.count[a])
            first = made.setdefault((int(self._teams[a][0]), episode, self._digest(a)), a)
            if first == a:
                self._solve(a, episode)
            else:
                self._weights[a] = self._weights[first]
            self._planned[a] = episode

    def _solve(self, a: int, episode: int) -> None:
        blocks, ends = self.history.blocks.of(a)
        joint_iteration.plan_jointly(
            blocks,
            ends,
            self._episodes(a),
            self.preference(a, episode),
            self.covariance[a],
            self._beta,
            self._most,
            self._form[a],
            self._given.exact,
            self._weights[a],
        )

    def _episodes(self, a: int) -> tuple[Array, ...]:
        held, over = self.history, slice(0, int(self.history.count[a]))
        used = held.fate[a, over] == USED
        return held.seen[a, over], held.did[a, over], held.reward[a, over], held.stages[a, over], used

    def _digest(self, a: int) -> bytes:
        """What tells those who know the same, to the last bit, from others."""
        blocks, ends = self.history.blocks.of(a)
        seen, did, reward, stages, used = self._episodes(a)
        made = hashlib.blake2b(digest_size=16)
        for part in (blocks, ends, seen[used], did[used], reward[used], stages[used]):
            made.update(np.ascontiguousarray(part).tobytes())
        return made.digest()

    # messages

    def say(self, learned: IntArray) -> Sequence[Message]:
        """Rewards of episodes that were not told yet, by those whose trigger has fired."""
        several = np.array([a for a in range(self._n) if len(self._teams[a]) > 1], dtype=np.int64)
        who = self._due(several)
        many = (self.history.count - self.sent)[who]
        reward = np.zeros((len(who), int(many.max(initial=0)), self._length))
        first = self.sent[who].copy()
        for i, a in enumerate(who):
            told = slice(self.sent[a], self.history.count[a])
            reward[i, : many[i]] = self.history.reward[a, told, :, self._own[a]]
            self._tell(int(a))
        return (Message(REWARDS.kind, who, {"first": first, "reward": reward}, {EPISODES: many}),)

    def hear(self, inbox: Inbox) -> None:
        """Note what members of one's team have got; what is complete with it is planned with from now on."""
        said = inbox.said
        if said.kind != REWARDS.kind:
            super().hear(inbox)
        first, reward, many = said.arrays["first"], said.arrays["reward"], said.lengths[EPISODES]
        if not np.isfinite(reward).all() or (first < 0).any():
            raise WireError("'reward' of 'rewards' is not finite, or 'first' is negative")
        for a, row in zip(inbox.to, inbox.row, strict=True):
            team = self._teams[a]
            at = int(np.searchsorted(team, said.who[row]))
            if at == len(team) or team[at] != said.who[row]:
                continue  # of another team
            begin = int(first[row])
            end = min(begin + int(many[row]), int(self.history.count[a]))
            if begin < end:
                self.history.reward[a, begin:end, :, at] = reward[row, : end - begin]
                self.history.told[a, begin:end, at] = True
        for a in np.unique(inbox.to):
            self._take_in(int(a))

    def _due(self, who: IntArray) -> IntArray:
        """Those of `who` who have episodes to tell of, in which a determinant has grown enough."""
        grown = self.models.farthest()[who] >= self._threshold
        return who[grown & (self.sent[who] < self.history.count[who])]

    def _tell(self, a: int) -> None:
        """What agent `a` has got until now is told; growth is measured from here."""
        self.history.told[a, self.sent[a] : self.history.count[a], self._own[a]] = True
        self.sent[a] = self.history.count[a]
        self.models.settle(self.models.rows(np.array([a])))

    def _take_in(self, a: int) -> None:
        """Plan with all episodes of which all members have told what they got; older ones that lack anything are given
        up, since nobody tells the same twice.
        """
        complete = self.history.complete(a, len(self._teams[a]))
        if not complete.any():
            return
        fate = self.history.fate[a]
        waiting = np.flatnonzero(fate[: len(complete)] == WAITS)
        fate[waiting[(waiting < np.flatnonzero(complete)[-1]) & ~complete[waiting]]] = LOST
        rows = self.models.rows(np.array([a]))
        for e in np.flatnonzero(complete):
            for h, columns in enumerate(self._columns(a, int(e))):
                self.known[a, h] += columns.T @ columns
            fate[e] = USED
        none = np.zeros((len(rows), self.models.dim))
        self.models.replace(rows, self.known[a], none, none[:, 0], alone=True)
        self.covariance[a] = self.models.inverse[rows]
        for e in np.flatnonzero(fate[: self.history.count[a]] == WAITS):
            self._count_in(a, int(e))
        self._planned[a] = -1

    def _count_in(self, a: int, e: int) -> None:
        """Episode `e` of agent `a` adds to the growth of its regressions."""
        for h, columns in enumerate(self._columns(a, e)):
            for column in columns:
                self.models.visit(np.array([a * self._length + h]), column[None])

    def _columns(self, a: int, e: int) -> list[FloatArray]:
        """For every stage of an episode, (m, p) the columns of Phi."""
        history, m, p = self.history, len(self._teams[a]), self.models.dim
        blocks, ends = history.blocks.of(a)
        found = []
        for h in range(int(history.stages[a, e])):
            seen = history.seen[a, e, h, :m]
            begin = np.where(seen > 0, ends[seen - 1], 0)
            chosen = np.ascontiguousarray(blocks[begin + history.did[a, e, h, :m]])
            found.append(joint_iteration.joint_columns(chosen, self._form[a], p))
        return found

    # snapshots

    def _take(self, state: Mapping[str, Array], prefix: str) -> None:
        super()._take(state, prefix)
        self._planned[:] = -1


def log_ratio(threshold: float) -> float:
    """By how much a log-determinant has to grow for a determinant to grow `threshold` times."""
    return math.log(threshold) if threshold > 1 else 0.0
