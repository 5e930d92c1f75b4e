"""Independent books of who observed, handed over and was told what, kept from raw observations and crossing messages.

Nothing here asks the agents: after every step the books say what each of them should hold.
"""

from __future__ import annotations

import numpy as np

from fedbandits.testing.recording import Event


class Books:
    """`own` (n, d, d+1): Gram matrix and moment of each agent's observations; `known`: what it should act on."""

    def __init__(self, n: int, dim: int) -> None:
        self.own = np.zeros((n, dim, dim + 1))
        self.known = np.zeros((n, dim, dim + 1))
        self.handed_over = np.zeros((n, dim, dim + 1))
        self.services = 0
        self.served: list[list[int]] = []

    def observe(self, event: Event) -> None:
        """Note the step's observations."""
        for row, i in enumerate(event.who):
            x, y = event.arms[row, event.picks[row]], event.rewards[row]
            gain = np.column_stack([np.outer(x, x), y * x])
            self.own[i] += gain
            self.known[i] += gain

    def unsent(self, who: np.ndarray) -> np.ndarray:
        """What `who` have observed and not handed over."""
        return self.own[who] - self.handed_over[who]

    def assert_agents_hold(self, event: Event) -> None:
        """Every agent acts on exactly what the books say."""
        models = event.side.agents.models
        np.testing.assert_allclose(models.base.gram + models.fresh.gram, self.known[:, :, :-1], atol=1e-9)
        np.testing.assert_allclose(models.base.moment + models.fresh.moment, self.known[:, :, -1], atol=1e-9)


class IncrementBooks(Books):
    """A service adds what the other members handed over; a member not reached is waited for."""

    def __init__(self, n: int, dim: int) -> None:
        super().__init__(n, dim)
        self.gathered = np.zeros((dim, dim + 1))
        self.given = np.zeros_like(self.own)
        self.under_way = False

    def follow(self, event: Event) -> None:
        """Note what happened in a step."""
        self.observe(event)
        if not self.under_way:
            self.gathered[:] = 0.0
            self.given[:] = 0.0
        collecting = False
        for direction, message in event.crossed:
            who = message.who
            collecting = collecting or message.kind == "collect"
            if message.kind in ("own", "all"):
                assert_carries(message, self.unsent(who), "own observations, and nothing received")
                assert (message.kind == "own") == collecting
                if collecting:
                    share = self.unsent(who)
                    self.given[who] += share
                    self.gathered += share.sum(axis=0)
                    self.handed_over[who] = self.own[who]
            if message.kind == "share":
                assert direction == "down"
                assert_carries(message, np.broadcast_to(self.gathered, self.own[who].shape), "the members' sum")
                self.known[who] += self.gathered - self.given[who]
                self.given[who] = 0.0
                self.services += 1
                self.served.append(who.tolist())
        self.under_way = bool(event.side.server.serving.any())


class TotalBooks(Books):
    """A service replaces what was received by the total of what the cluster's members have handed over."""

    def follow(self, event: Event) -> None:
        """Note what happened in a step."""
        self.observe(event)
        for _, message in event.crossed:
            who = message.who
            if message.kind == "own":
                assert_carries(message, self.unsent(who), "own observations, and nothing received")
                self.handed_over[who] = self.own[who]
            if message.kind == "total":
                clusters = event.side.server.clusters
                totals = [self.handed_over[cluster].sum(axis=0) for cluster in clusters[clusters[:, who].all(axis=1)]]
                carried = np.concatenate([message.arrays["gram"][0], message.arrays["moment"][0][:, None]], axis=1)
                matching = [total for total in totals if np.allclose(total, carried, atol=1e-9)]
                assert matching, "no cluster of the addressees has this total"
                self.known[who] = matching[0] + self.unsent(who)
                self.services += 1
                self.served.append(who.tolist())


def assert_carries(message, expected, what):
    """The statistics in `message` are `expected` (w, d, d+1)."""
    np.testing.assert_allclose(message.arrays["gram"], expected[:, :, :-1], atol=1e-9, err_msg=what)
    np.testing.assert_allclose(message.arrays["moment"], expected[:, :, -1], atol=1e-9, err_msg=what)
