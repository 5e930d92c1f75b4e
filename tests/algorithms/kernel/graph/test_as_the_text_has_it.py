"""Kernelised bandits on graphs, agent by agent: every decision is recomputed from the text, by lists and one solve.

Nothing is taken from the library but the worlds and the kernels' values. Letters travel as in the thesis: what is said
in round t is with agents k hops away before they act in round t + k.
"""

from __future__ import annotations

import itertools

import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import fedbandits as fb
from fedbandits.contract.facts import RKHS, AgentFeatures, Noise
from fedbandits.contract.streams import seeds_of
from fedbandits.graphs.centres import centres
from fedbandits.graphs.leaders import clique_of
from fedbandits.graphs.network import Given
from fedbandits.testing.recording import recorded

HORIZON = 14


class Text:
    """Algorithms 15 to 17."""

    def __init__(self, name, algorithm, problem, graph, hops):
        self.name, self.given, self.problem, self.hops = name, algorithm, problem, hops
        self.distance = dict(nx.all_pairs_shortest_path_length(graph))
        self.n = problem.agents
        self.clique = clique_of(graph, hops)
        self.leader = centres(graph, hops).leader
        self.said = []  # by round: {agent: (x, y, context)}

    def kx(self, x, y):
        """(m, d), (q, d) -> (m, q)."""
        if self.given.kernel != "told":
            return x @ y.T
        return np.exp(-((x[:, None] - y[None]) ** 2).sum(axis=2) / (2 * self.problem.get(RKHS).lengthscales ** 2))

    def listens(self, v):
        near = [u for u in range(self.n) if self.distance[v].get(u, 99) <= self.hops]
        if self.name == "fed-ucb-kernel":
            near = [u for u in near if self.clique[u] == self.clique[v]]
        if self.name == "dist-ucb-kernel" and self.leader[v] != v:
            near = [v]
        return near

    def contexts(self, v, step):
        """What K_z rests on in the decision of `step`: contexts said before the last round of revision by then."""
        if self.given.revise == "always":
            turns = range(1, self.given.contexts + 1)
        else:
            turns = [2**k for k in range(20) if 2**k <= self.given.contexts]
        done = [turn for turn in turns if turn + self.hops - 1 < step]
        return {} if not done else {u: [self.said[born][u][2] for born in range(done[-1])] for u in self.listens(v)}

    def kz(self, v, step):
        """(n, n) who is like whom, as far as v can tell."""
        if self.given.likeness == "same":
            return np.ones((self.n, self.n))
        if self.given.likeness == "told":
            z = np.array(self.problem.get(AgentFeatures).features)
            return np.exp(-((z[:, None] - z[None]) ** 2).sum(axis=2) / (2 * self.given.sigma**2))
        seen, found = self.contexts(v, step), np.eye(self.n)
        mean = {(u, w): self.kx(np.array(seen[u]), np.array(seen[w])).mean() for u in seen for w in seen}
        for u, w in itertools.permutations(seen, 2):
            square = max(mean[u, u] + mean[w, w] - 2 * mean[u, w], 0)
            found[u, w] = np.exp(-(square if self.given.squared else np.sqrt(square)) / (2 * self.given.sigma**2))
        return found

    def scores(self, v, step, arms):
        """mu + width sigma / sqrt(lambda), or who follows: minus the distance from what its centre did last."""
        away = self.distance[v][self.leader[v]]
        if self.name == "dist-ucb-kernel" and away and step - away >= 0:
            return -((arms - self.said[step - away][self.leader[v]][0]) ** 2).sum(axis=1)
        known = [
            (u, *self.said[born][u][:2])
            for u in self.listens(v)
            for born in range(step - max(self.distance[v][u], 1) + 1)
        ]
        who = np.array([u for u, *_ in known], dtype=int)
        points = np.array([x for _, x, _ in known]).reshape(len(known), arms.shape[1])
        rewards = np.array([y for *_, y in known])
        alike, ridge = self.kz(v, step), self.given.ridge

        def joint(z, inner):
            return (z + inner) / 2 if self.given.composition == "sum" else z * inner

        V = joint(alike[np.ix_(who, who)], self.kx(points, points)) + ridge * np.eye(len(known))
        width = self.given.width
        if width == "theory":
            volume = np.linalg.slogdet(V / ridge)[1]
            spread = np.sqrt(2 * np.log(self.n / self.given.delta) + volume)
            width = self.problem.get(Noise).sigma * spread + np.sqrt(ridge)
        across = joint(alike[who, v][:, None], self.kx(points, arms))
        variance = joint(alike[v, v], np.diag(self.kx(arms, arms))) - (across * np.linalg.solve(V, across)).sum(axis=0)
        return across.T @ np.linalg.solve(V, rewards) + width * np.sqrt(np.maximum(variance, 0) / ridge)


def every_decision(name, environment, graph, hops, **parameters):
    """Run the algorithm, and recompute all of its choices; how many were clear enough to be judged."""
    algorithm = fb.algorithms.ALGORITHMS[name](**parameters)
    problem = environment.world(HORIZON, seeds_of(0).world).problem
    text, judged = Text(name, algorithm, problem, graph, hops), 0
    for event in recorded(algorithm, environment, HORIZON, network=Given.of(graph, ttl=hops)):
        said = {}
        (message,) = [message for _, message in event.crossed]
        for v in range(text.n):
            scores = text.scores(v, event.step, event.arms[v])
            best = np.sort(scores)[-2:]
            if best[1] - best[0] > 1e-9:
                assert event.picks[v] == scores.argmax(), (event.step, v, scores)
                judged += 1
            context = message.arrays["context"][v] if algorithm.likeness == "estimated" else None
            said[v] = (event.arms[v, event.picks[v]], event.rewards[v], context)
        text.said.append(said)
    return judged


@st.composite
def graphs(draw):
    n = draw(st.integers(2, 6))
    graph = nx.gnp_random_graph(n, draw(st.floats(0.1, 1.0)), seed=draw(st.integers(0, 1000)))
    nx.add_path(graph, range(n))  # connected, as the thesis has it
    return graph


NAMES = ("fed-ucb-kernel", "fed-ucb-eager", "dist-ucb-kernel")


@settings(max_examples=15, deadline=None)
@given(
    graphs(),
    st.integers(1, 3),
    st.sampled_from(NAMES),
    st.sampled_from(["estimated", "told", "same"]),
    st.sampled_from(["product", "sum", "kronecker"]),
    st.sampled_from([{}, {"squared": True, "sigma": 0.5}, {"revise": "always", "contexts": 5}]),
    st.sampled_from(["theory", 0.4]),
    st.integers(0, 3),
)
def test_every_decision_on_random_graphs(graph, hops, name, likeness, composition, estimate, width, features):
    """Smooth functions, exactly; linear ones by features that are exact, where features are given."""
    made = {"clients": len(graph), "dim": 3, "arms": 4, "told": True}
    environment = fb.environments.HeterogeneousRBF(**made)
    parameters = {"likeness": likeness, "composition": composition, "width": width, "ridge": 0.3, **estimate}
    if features:
        environment = fb.environments.HeterogeneousLinear(**made, clusters=2)
        parameters |= {"kernel": "linear", "features": 3 * len(graph) + 3}
    judged = every_decision(name, environment, graph, hops, **parameters)
    assert judged > len(graph) * HORIZON / 2


@pytest.mark.parametrize("name", NAMES)
def test_every_decision_on_a_ring(name):
    """A ring of six and two hops: nobody hears everybody, and cliques are three in a row."""
    environment = fb.environments.HeterogeneousRBF(clients=6, dim=3, arms=4)
    assert every_decision(name, environment, nx.cycle_graph(6), 2, likeness="estimated", width=0.3) > 6 * HORIZON / 2
