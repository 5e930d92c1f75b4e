"""Estimators as they are defined, on all samples at once and in plain numpy; and samples to try them on."""

from __future__ import annotations

import math

import numpy as np


def empirical(x, t):
    return x.mean()


def trimmed(x, t, order, raw):
    i = np.arange(1, len(x) + 1)
    kept = np.full(len(x), True) if t == 1 else np.abs(x) <= (raw * i / (2 * math.log(t))) ** (1 / order)
    return x[kept].sum() / len(x)


def printed(x, t, order, raw):
    i = np.arange(1, len(x) + 1)
    return x[np.abs(x) <= (2 * raw * i * math.log(t)) ** (1 / order)].sum() / len(x)


def median_of_means(x, t):
    k = max(1, math.floor(min(8 * math.log(math.exp(1 / 8) * t**2), len(x) / 2)))
    size = len(x) // k
    return np.median(x[: k * size].reshape(k, size).mean(axis=1))


def shortest_interval(samples, t, contamination):
    n = len(samples) // 2
    x, y = samples[: 2 * n : 2], np.sort(samples[1 : 2 * n : 2])
    delta = 1 / t**2
    if n:
        alpha = max(contamination, math.log(1 / delta) / n)
        h = n * (1 - 2 * alpha - math.sqrt(2 * alpha * math.log(4 / delta) / n) - math.log(4 / delta) / n)
        points = math.ceil(h)
        if points > n / 2:
            lengths = y[points - 1 :] - y[: n - points + 1]
            first = int(lengths.argmin())
            inside = x[(x >= y[first]) & (x <= y[first + points - 1])]
            if len(inside):
                return inside.mean()
    return np.median(samples)


def stable(rng, alpha, size):
    """Symmetric alpha-stable numbers with characteristic function exp(-|t|^alpha) (Chambers, Mallows & Stuck 1976)."""
    angle, wait = rng.uniform(-np.pi / 2, np.pi / 2, size), rng.exponential(size=size)
    head = np.sin(alpha * angle) / np.cos(angle) ** (1 / alpha)
    return head * (np.cos((1 - alpha) * angle) / wait) ** ((1 - alpha) / alpha)


class Diary:
    """An estimator that is handed random letters round by round, and what each agent got of each arm, in order."""

    def __init__(self, estimator, seed, tail=1.5):
        self.estimator = estimator
        self.n, self.arms = estimator.counts.shape
        self.rng = np.random.default_rng(seed)
        self.tail = tail
        self.got = {(i, k): [] for i in range(self.n) for k in range(self.arms)}

    def round(self, most=8):
        rows = int(self.rng.integers(1, 5))
        letters = int(self.rng.integers(0, most + 1))
        arms, rewards = self.rng.integers(0, self.arms, rows), 0.3 + stable(self.rng, self.tail, rows)
        to, row = self.rng.integers(0, self.n, letters), self.rng.integers(0, rows, letters)
        self.estimator.gather(to, row, arms, rewards)
        for i, r in zip(to, row, strict=True):
            self.got[i, arms[r]].append(rewards[r])

    def expected(self, who, turns, definition):
        out = np.zeros((len(who), self.arms))
        for a, (i, t) in enumerate(zip(who, turns, strict=True)):
            for k in range(self.arms):
                if self.got[i, k]:
                    out[a, k] = definition(np.array(self.got[i, k]), int(t))
        return out

    def check(self, rounds, definition, rtol=1e-12, atol=1e-12, pace=3):
        """Agents wake at random and their turns go on at random; estimates are compared whenever somebody is awake."""
        turns = np.ones(self.n, dtype=np.int64)
        for _ in range(rounds):
            self.round()
            who = np.flatnonzero(self.rng.random(self.n) < 0.7)
            turns[who] += self.rng.integers(0, pace, len(who))
            found = self.estimator.estimates(who, turns[who])
            np.testing.assert_allclose(found, self.expected(who, turns[who], definition), rtol=rtol, atol=atol)
        counts = [[len(self.got[i, k]) for k in range(self.arms)] for i in range(self.n)]
        assert self.estimator.counts.tolist() == counts
