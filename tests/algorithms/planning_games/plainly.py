"""MG-LSVI from its text, with dense matrices: one team, everybody in step, no messages but sums of rewards."""

from __future__ import annotations

import itertools

import numpy as np


class Team:
    """A team of m members whose blocks (m, K, b) are given stage by stage; `weights(t)` are those of episode t."""

    def __init__(self, pays, length, ridge, beta, top, ratio, product, weights):
        self.pays, self.length, self.ridge, self.beta = pays, length, ridge, beta
        self.top, self.ratio, self.product, self.weights = top, ratio, product, weights
        self.synced, self.fresh, self.syncs, self.running = [], [], 0, []

    def features(self, blocks, acts):
        """Phi (p, m)."""
        rows = [block[k] for block, k in zip(blocks, acts, strict=True)]
        m = len(rows)
        if self.product:
            f = g = np.ones(1)
            for row in rows:
                f, g = np.kron(f, row[: self.pays]), np.kron(g, row[self.pays :])
            f, g = f / np.sqrt(2), g / np.sqrt(2)
        else:
            f = np.concatenate([row[: self.pays] for row in rows]) / np.sqrt(2 * m)
            g = np.concatenate([row[self.pays :] for row in rows]) / np.sqrt(2 * m)
        return np.stack([np.concatenate([np.kron(np.eye(m)[v], f), g]) for v in range(m)], axis=1)

    def joint(self, blocks):
        return list(itertools.product(range(blocks.shape[1]), repeat=len(blocks)))

    def index(self, phi, w, gram, share):
        bonus = np.linalg.norm(phi.T @ np.linalg.solve(gram, phi), 2)
        return share @ phi.T @ w + self.beta * np.sqrt(bonus)

    def plan(self):
        share = self.weights(len(self.synced) + len(self.fresh))
        self.solved = [None] * self.length
        self.share = share
        for h in reversed(range(self.length)):
            gram, moment = None, 0.0
            for episode in self.synced:
                if len(episode) <= h:
                    continue
                blocks, acts, rewards = episode[h]
                value = 0.0
                if h + 1 < len(episode):
                    ahead = episode[h + 1][0]
                    w, held = self.solved[h + 1]
                    found = [self.index(self.features(ahead, a), w, held, share) for a in self.joint(ahead)]
                    value = min(max(found), self.top[h + 1])
                phi = self.features(blocks, acts)
                gram = phi @ phi.T if gram is None else gram + phi @ phi.T
                moment = moment + phi @ (rewards + value)
            self.solved[h] = (None, None)
            if gram is not None:
                gram = gram + self.ridge * np.eye(len(gram))
                self.solved[h] = np.linalg.solve(gram, moment), gram

    def act(self, blocks):
        if not self.running:
            self.plan()
        w, gram = self.solved[len(self.running)]
        actions = self.joint(blocks)
        phis = [self.features(blocks, acts) for acts in actions]
        if w is None:
            w, gram = np.zeros(len(phis[0])), self.ridge * np.eye(len(phis[0]))
        return actions, np.array([self.index(phi, w, gram, self.share) for phi in phis])

    def learn(self, blocks, acts, rewards):
        self.running.append((blocks, acts, rewards))
        if len(self.running) < self.length:
            return
        self.fresh.append(self.running)
        self.running = []
        for h in range(self.length):
            old, new = (
                sum(
                    (phi @ phi.T for phi in (self.features(e[h][0], e[h][1]) for e in episodes)),
                    self.ridge * np.eye(len(self.features(blocks, acts))),
                )
                for episodes in (self.synced, self.synced + self.fresh)
            )
            if np.linalg.slogdet(new)[1] - np.linalg.slogdet(old)[1] >= np.log(max(self.ratio, 1.0)):
                self.synced, self.fresh, self.syncs = self.synced + self.fresh, [], self.syncs + 1
                return
