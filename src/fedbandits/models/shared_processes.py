"""Processes over agents and points, one for each group of agents that know the same.

Agents of one clique hold the same observations: one process serves them all, and an agent alone computes the same
numbers, to the last bit. Agents who listen to the same others begin with one process; where they then hear different
things, in whatever order, the process is copied, and they go on apart.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import ClassVar

import numpy as np

from fedbandits.contract.arrays import Array, FloatArray, IntArray, State
from fedbandits.contract.state import Stateful
from fedbandits.models.embeddings import Samples
from fedbandits.models.joint_process import JointModel, JointProcess, Observations

_FLAT = ("points", "sources", "rewards", "born", "contexts")
"""What is held of observations, process by process."""


class SharedProcesses(Stateful):
    """n posteriors: agent i, of identity `identities[i]`, hears those of `reaches[i]`, itself among them.

    `agents` is K_z over all agents of the problem, (M, M), or None where it is estimated: nobody is like anybody until
    `estimate` says so. `group` (n,) says which of the `processes` is each agent's.
    """

    keeps: ClassVar[tuple[str, ...]] = ()

    def __init__(
        self,
        model: JointModel,
        identities: IntArray,
        reaches: Sequence[IntArray],
        agents: FloatArray | None,
        total: int,
    ) -> None:
        self.model = model
        self.identities = identities
        self.processes: list[JointProcess] = []
        self.group = np.zeros(len(identities), dtype=np.int64)
        self.place = np.full((len(identities), total), -1)
        """(n, M) where each agent of the problem stands among those whom an agent hears; -1: it is not heard."""
        self._own = np.zeros(len(identities), dtype=np.int64)
        self._total = total
        known: dict[bytes, int] = {}
        for i, reach in enumerate(reaches):
            self.place[i, reach] = np.arange(len(reach))
            self._own[i] = self.place[i, identities[i]]
            key = reach.tobytes()
            if key not in known:
                known[key] = len(self.processes)
                table = np.eye(len(reach)) if agents is None else np.ascontiguousarray(agents[np.ix_(reach, reach)])
                self.processes.append(JointProcess(model, reach, table))
            self.group[i] = known[key]

    def __len__(self) -> int:
        return len(self.identities)

    @property
    def counts(self) -> FloatArray:
        """(n,) how many observations each agent acts on."""
        return np.array([process.count for process in self.processes], dtype=np.float64)[self.group]

    @property
    def logdets(self) -> FloatArray:
        """(n,) log det(I + K/lambda)."""
        return np.array([process.logdet for process in self.processes])[self.group]

    def posterior(self, who: IntArray, arms: FloatArray) -> tuple[FloatArray, FloatArray]:
        """(w,), (w, K, d) -> mu and sigma, (w, K) each."""
        mean, deviation = np.empty((2, len(who), arms.shape[1]))
        features = self._features_of(who, arms)
        theirs = self.group[who]
        for one in np.unique(theirs):  # by process: what each does is work enough
            of = np.flatnonzero(theirs == one)
            seen = None if features is None else features[of]
            mean[of], deviation[of] = self.processes[one].posterior(self._own[who[of]], arms[of], seen)
        return mean, deviation

    def learn(
        self,
        who: IntArray,
        starts: IntArray,
        rows: IntArray,
        pool: Observations,
        origins: IntArray,
        *,
        more_to_come: bool,
    ) -> None:
        """Agent `who[i]` takes in the observations `rows[starts[i] : starts[i + 1]]` of `pool`, in that order, which
        are of the agents `origins`, identities (rows,). Raises before anything has changed.
        """
        batches = [rows[first:last] for first, last in itertools.pairwise(starts)]
        by_group: dict[int, dict[bytes, list[int]]] = {}
        for i, batch in enumerate(batches):
            if len(batch):
                by_group.setdefault(int(self.group[who[i]]), {}).setdefault(batch.tobytes(), []).append(i)
        for one, parts in by_group.items():
            for members in parts.values():
                self.processes[one].check(len(batches[members[0]]))
        if any(process.summed for process in self.processes) and self.model.features is not None:
            pool = pool._replace(features=self.model.features.of_points(pool.points))
        for one, parts in by_group.items():
            left = int((self.group == one).sum()) - sum(map(len, parts.values()))
            for at, members in enumerate(parts.values()):
                process = self.processes[one]
                if left or at < len(parts) - 1:  # the last to leave takes it along
                    process = process.copy()
                    self.group[who[members]] = len(self.processes)
                    self.processes.append(process)
                batch = batches[members[0]]
                places = self.place[who[members[0]], origins[batch]]
                process.learn(places, pool.of(batch), more_to_come=more_to_come)

    def estimate(self, before: int, sigma: float, squared: bool, *, more_to_come: bool) -> None:
        """Estimate K_z from contexts that were said before the round `before` (`models.embeddings`)."""
        samples = Samples(self.model.kernel)
        blocks = []
        for process in self.processes:
            held, sources = process.held
            early = held.born < before
            contexts, theirs = held.contexts[early], sources[early]
            order = np.argsort(theirs, kind="stable")
            parts = np.split(contexts[order], np.cumsum(np.bincount(theirs, minlength=len(process.reach)))[:-1])
            blocks.append(
                np.array(
                    [samples.add(int(who), part) for who, part in zip(process.reach, parts, strict=True)],
                    dtype=np.int64,
                )
            )
        tables = samples.alike(blocks, sigma, squared)
        known: dict[bytes, FloatArray] = {}
        for process, table in zip(self.processes, tables, strict=True):
            features = self._features_again(process, known) if process.summed else None
            process.revise(table, features, more_to_come=more_to_come)

    def _features_again(self, process: JointProcess, known: dict[bytes, FloatArray]) -> FloatArray | None:
        """(kept, size) features of all points that a process holds, each computed once for all processes."""
        features = self.model.features
        assert features is not None
        points = process.held[0].points
        found = np.empty((len(points), features.size))
        missing = []
        for i, point in enumerate(points):
            row = known.get(point.tobytes())
            if row is None:
                missing.append(i)
            else:
                found[i] = row
        found[missing] = features.of_points(points[missing])
        known |= {points[i].tobytes(): found[i] for i in missing}
        return found

    def _features_of(self, who: IntArray, arms: FloatArray) -> FloatArray | None:
        """(w, K, size) features of arms, for all who need any at once."""
        features = self.model.features
        if features is None or not any(self.processes[one].summed for one in np.unique(self.group[who])):
            return None
        w, k, d = arms.shape
        return features.of_points(np.ascontiguousarray(arms).reshape(w * k, d)).reshape(w, k, features.size)

    # snapshots

    def _arrays(self, prefix: str = "") -> State:
        """Observations, or sums, and K_z; factors are computed anew from them."""
        first = np.unique(self.group, return_index=True)
        order = first[0][np.argsort(first[1])]  # by their first members
        place = np.full(len(self.processes), -1)
        place[order] = np.arange(len(order))
        self.processes = [self.processes[one] for one in order]
        self.group = place[self.group]
        return {prefix + "group": self.group, **_packed(self.processes, prefix)}

    def _share(self, agent: int, prefix: str) -> State:
        return {
            prefix + "group": np.zeros(1, dtype=np.int64),
            **_packed([self.processes[self.group[agent]]], prefix),
        }

    def _growing(self, prefix: str = "") -> set[str]:
        return {name for name in self._arrays(prefix) if name != prefix + "group"}

    def _check_grown(self, state: Mapping[str, Array], prefix: str) -> None:
        """Raise unless `state` describes processes of agents that hear whom these do."""
        self._unpacked(state, prefix)

    def _take(self, state: Mapping[str, Array], prefix: str) -> None:
        self.group = np.array(state[prefix + "group"])
        self.processes = self._unpacked(state, prefix)

    def _unpacked(self, state: Mapping[str, Array], prefix: str) -> list[JointProcess]:
        group, sizes = state[prefix + "group"], state[prefix + "sizes"]
        if sizes.shape[1:] != (5,) or not np.array_equal(np.unique(group), np.arange(len(sizes))):
            raise ValueError(f"the snapshot's {prefix}sizes does not describe the processes of its groups")
        ends = np.cumsum(np.concatenate([np.zeros((1, 3), dtype=np.int64), sizes[:, [2, 3, 4]] ** [1, 2, 1]]), axis=0)
        sums = np.concatenate([[0], np.cumsum(sizes[:, 4] ** 2)])
        wanted = {
            **dict.fromkeys(_FLAT, ends[-1, 0]),
            "tables": ends[-1, 1],
            "moments": ends[-1, 2],
            "grams": sums[-1],
        }
        for name, length in wanted.items():
            if len(state[prefix + name]) != length:
                raise ValueError(f"the snapshot's {prefix}{name} has {len(state[prefix + name])} rows, not {length}")
        found = []
        for one, (count, revision, kept, size, dim) in enumerate(sizes):
            agent = int(np.argmax(group == one))
            reach = np.flatnonzero(self.place[agent] >= 0)
            if len(reach) != size:
                raise ValueError(f"the snapshot's agent {agent} hears {size} agents, this one hears {len(reach)}")
            rows = slice(ends[one, 0], ends[one, 0] + kept)
            table = np.array(state[prefix + "tables"][ends[one, 1] : ends[one, 1] + size**2]).reshape(size, size)
            points, sources, rewards, born, contexts = (np.array(state[prefix + name][rows]) for name in _FLAT)
            process = JointProcess(self.model, reach, table)
            process.revision = int(revision)
            totals = None
            if dim:
                gram = np.array(state[prefix + "grams"][sums[one] : sums[one + 1]]).reshape(dim, dim)
                totals = gram, np.array(state[prefix + "moments"][ends[one, 2] : ends[one, 2] + dim])
            process.restore(sources, Observations(points, rewards, born, contexts), int(count), totals)
            found.append(process)
        return found


def _packed(processes: Sequence[JointProcess], prefix: str) -> State:
    """`sizes` (G, 5): how many observations each process has taken in, how often K_z was estimated, how many are held,
    how many agents are within reach, and the dimension of its sums, 0 without; and all they have, one after the other.
    """
    held = [process.held for process in processes]
    sizes = [
        (
            process.count,
            process.revision,
            process.kept,
            len(process.reach),
            len(process.moment) if process.summed else 0,
        )
        for process in processes
    ]
    grams = [gram.ravel() for process in processes if (gram := process.gram) is not None]
    moments = [process.moment for process in processes if process.summed]
    found: State = {
        "sizes": np.array(sizes, dtype=np.int64),
        "tables": np.concatenate([process.table.ravel() for process in processes]),
        "points": np.concatenate([one.points for one, _ in held]),
        "sources": np.concatenate([sources for _, sources in held]),
        "rewards": np.concatenate([one.rewards for one, _ in held]),
        "born": np.concatenate([one.born for one, _ in held]),
        "contexts": np.concatenate([one.contexts for one, _ in held]),
        "grams": np.concatenate([np.zeros(0), *grams]),
        "moments": np.concatenate([np.zeros(0), *moments]),
    }
    return {prefix + name: array for name, array in found.items()}
