"""The linear family once more, as the publications print it: one agent at a time, fresh factorisations, no cleverness.

Shares nothing with the package. What the package does incrementally for a population is held against this.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np


def logdet(matrix):
    sign, value = np.linalg.slogdet(matrix)
    assert sign > 0
    return value


@dataclass
class Sums:
    """A = sum x x^T, b = sum y x, m."""

    A: np.ndarray
    b: np.ndarray
    m: int = 0

    @staticmethod
    def zero(d):
        return Sums(np.zeros((d, d)), np.zeros(d))

    def add(self, x, y):
        return self + Sums(np.outer(x, x), y * x, 1)

    def __add__(self, other):
        return Sums(self.A + other.A, self.b + other.b, self.m + other.m)


@dataclass
class Reference:
    """Every agent alone; the others override what they act on and when they talk."""

    n: int
    d: int
    noise: float
    ridge: float = 1.0
    delta: float = 0.1
    width: float | str = "theory"
    ups: int = 0
    downs: int = 0
    own: list[Sums] = field(init=False)

    def __post_init__(self):
        self.own = [Sums.zero(self.d) for _ in range(self.n)]
        self.start()

    def start(self):
        pass

    def regularised(self, sums):
        return sums.A + self.ridge * np.eye(self.d)

    def acts_on(self, i):
        return self.own[i]

    def theta(self, i):
        sums = self.acts_on(i)
        return np.linalg.solve(self.regularised(sums), sums.b)

    def indices(self, i, arms):
        sums = self.acts_on(i)
        V = self.regularised(sums)
        inverse = np.linalg.inv(V)
        if self.width == "theory":
            volume = logdet(V) - self.d * np.log(self.ridge)
        elif self.width == "loose":
            volume = self.d * np.log(1 + sums.m / (self.d * self.ridge))
        if isinstance(self.width, str):
            width = self.noise * np.sqrt(2 * np.log(1 / self.delta) + volume) + np.sqrt(self.ridge)
        else:
            width = self.width
        return np.array([self.theta(i) @ x + width * np.sqrt(x @ inverse @ x) for x in arms])

    def learn(self, i, x, y):
        self.own[i] = self.own[i].add(x, y)

    def talk(self):
        """Who called."""
        return []


class Central(Reference):
    def start(self):
        self.pool = Sums.zero(self.d)
        self.spoke = set()

    def acts_on(self, i):
        return self.pool

    def learn(self, i, x, y):
        self.pool = self.pool.add(x, y)
        self.spoke.add(i)

    def talk(self):
        callers, self.spoke = sorted(self.spoke), set()
        self.ups += len(callers)
        self.downs += self.n
        return callers


@dataclass
class Dis(Reference):
    D: float = 0.5

    def start(self):
        self.synced = Sums.zero(self.d)
        self.new = [Sums.zero(self.d) for _ in range(self.n)]

    def acts_on(self, i):
        return self.synced + self.new[i]

    def learn(self, i, x, y):
        self.new[i] = self.new[i].add(x, y)

    def talk(self):
        callers = [
            i
            for i in range(self.n)
            if self.new[i].m * (logdet(self.regularised(self.acts_on(i))) - logdet(self.regularised(self.synced)))
            > self.D
        ]
        if callers:
            self.synced = sum(self.new, self.synced)
            self.start_anew()
            self.ups += self.n
            self.downs += self.n
        return callers

    def growth(self, i):
        return logdet(self.regularised(self.acts_on(i))) - logdet(self.regularised(self.synced))

    def start_anew(self):
        self.new = [Sums.zero(self.d) for _ in range(self.n)]


@dataclass
class Async(Reference):
    gamma_up: float = 1.3
    gamma_down: float = 1.3

    def start(self):
        self.new = [Sums.zero(self.d) for _ in range(self.n)]
        self.pool = Sums.zero(self.d)
        self.lacks = [Sums.zero(self.d) for _ in range(self.n)]

    def learn(self, i, x, y):
        super().learn(i, x, y)
        self.new[i] = self.new[i].add(x, y)

    def talk(self):
        ridge = self.ridge * np.eye(self.d)
        callers = [
            i
            for i in range(self.n)
            if np.linalg.det(self.own[i].A + ridge) / np.linalg.det(self.own[i].A - self.new[i].A + ridge)
            > self.gamma_up
        ]
        for i in callers:
            self.pool = self.pool + self.new[i]
            for j in range(self.n):
                if j != i:
                    self.lacks[j] = self.lacks[j] + self.new[i]
            self.new[i] = Sums.zero(self.d)
        self.ups += len(callers)
        for j in range(self.n if callers else 0):
            grown = np.linalg.det(self.pool.A + ridge) / np.linalg.det(self.pool.A - self.lacks[j].A + ridge)
            if grown > self.gamma_down:
                self.own[j] = self.own[j] + self.lacks[j]
                self.lacks[j] = Sums.zero(self.d)
                self.downs += 1
        return callers


@dataclass
class Fed(Reference):
    a: float = 0.1

    def start(self):
        self.new = [Sums.zero(self.d) for _ in range(self.n)]
        self.pool = Sums.zero(self.d)
        self.downloaded = [Sums.zero(self.d) for _ in range(self.n)]

    def acts_on(self, i):
        return self.downloaded[i]

    def learn(self, i, x, y):
        self.new[i] = self.new[i].add(x, y)

    def talk(self):
        callers = [
            i
            for i in range(self.n)
            if np.linalg.det(self.regularised(self.downloaded[i] + self.new[i]))
            > (1 + self.a) * np.linalg.det(self.regularised(self.downloaded[i]))
        ]
        for i in callers:
            self.pool = self.pool + self.new[i]
            self.new[i] = Sums.zero(self.d)
        for i in callers:
            self.downloaded[i] = self.pool
        self.ups += len(callers)
        self.downs += len(callers)
        return callers
