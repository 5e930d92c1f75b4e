"""Three kinds of randomness: an agent's own, what a federation has in common, and what nobody else may know.

A population draws for all its agents in one call, and yet each agent has a stream of its own: agent 7
draws the same numbers whether it lives in a population of thousands or alone on its own machine, and
its stream is part of its snapshot. The generator is xoshiro256++ (Blackman & Vigna 2021), seeded by
SplitMix64 from a key that a `numpy.random.SeedSequence` provides and the agent's identity.

*Common* draws are a hash of an occasion: agents and server of one federation draw the same without talking. *Secret*
draws are for noise that protects people. In a simulation they follow the seed like everything else; a deployed agent
has them from the operating system (`deploy.secret`), since whoever can compute the noise can remove it.
"""

from __future__ import annotations

import hashlib
from abc import abstractmethod
from typing import ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from fedbandits.contract.arrays import FloatArray, IntArray
from fedbandits.contract.state import Stateful
from fedbandits.linalg.jit import jit, jit_part

WordArray = NDArray[np.uint64]
_GOLDEN = np.uint64(0x9E3779B97F4A7C15)


class Seeds(NamedTuple):
    """What one number stands for: a seed of its own for everything that is drawn in a run."""

    world: np.random.SeedSequence
    agents: np.random.SeedSequence
    graph: np.random.SeedSequence
    mishaps: np.random.SeedSequence
    server: np.random.SeedSequence
    common: np.random.SeedSequence


def seeds_of(seed: int) -> Seeds:
    """The seeds that `seed` stands for, in a simulation as in a federation of deployed agents."""
    return Seeds(*np.random.SeedSequence(seed).spawn(len(Seeds._fields)))


class Streams(Stateful):
    """Independent streams for the agents with the given identities (default 0..n-1).

    >>> import numpy as np
    >>> everybody = Streams(np.random.SeedSequence(1), 3)
    >>> alone = Streams(np.random.SeedSequence(1), identities=np.array([2]))
    >>> bool(everybody.uniform(np.arange(3))[2] == alone.uniform(np.array([0]))[0])
    True
    """

    keeps: ClassVar[tuple[str, ...]] = ("words", "secret")

    def __init__(
        self,
        seed: np.random.SeedSequence,
        n: int = 0,
        identities: IntArray | None = None,
        *,
        common: np.random.SeedSequence | None = None,
        secret: Secret | None = None,
    ) -> None:
        self.identities: IntArray = np.arange(n) if identities is None else np.asarray(identities, dtype=np.int64)
        """(n,) who the agents of this population are among all agents of the problem."""
        if len(self.identities) == 0:
            raise ValueError("Streams needs n >= 1 or a non-empty list of identities")
        key = seed.generate_state(2, np.uint64)
        mixed = _split_mix(self.identities.astype(np.uint64) + key[0]) ^ key[1]
        steps = np.arange(1, 5, dtype=np.uint64) * _GOLDEN
        self.words = _split_mix(mixed[:, None] + steps)
        """(n, 4) uint64, the states of the generators."""
        self.secret = _Seeded(self) if secret is None else secret
        """Where noise that protects people comes from."""
        self._seed = seed
        self._common = seed if common is None else common

    def __len__(self) -> int:
        return len(self.words)

    def uniform(self, who: IntArray, size: int | None = None) -> FloatArray:
        """(w,) or (w, size) draws from the open unit interval, one row from each agent's stream."""
        drawn = np.empty((len(who), 1 if size is None else size))
        _fill_uniform(self.words, who, drawn)
        return drawn[:, 0] if size is None else drawn

    def normal(self, who: IntArray, size: int | None = None) -> FloatArray:
        """(w,) or (w, size) standard normal draws, by inversion: one uniform for each."""
        return np.asarray(ndtri(self.uniform(who, size)), dtype=np.float64)

    def common(self, *occasion: str | int) -> np.random.Generator:
        """A generator that everybody in the federation has on this occasion, such as ("features", 3).

        It depends on the federation's common seed and on the occasion, and on nothing else: not on who asks, when, or
        how often.
        """
        return np.random.default_rng(_on(self._common, occasion))

    def apart(self, *purpose: str | int) -> Streams:
        """Streams of the same agents for another purpose, such as ("stage", 0): what is drawn from them moves nothing
        here. Common draws are the same; so are secret ones that do not follow from a seed.
        """
        secret = None if isinstance(self.secret, _Seeded) else self.secret
        seed = _on(self._seed, purpose)
        return Streams(seed, identities=self.identities, common=self._common, secret=secret)


class Secret(Stateful):
    """Draws that nobody outside the agent may be able to repeat. Part of its agents' snapshot, and of nothing else."""

    @abstractmethod
    def uniform(self, who: IntArray, size: int | None = None) -> FloatArray:
        """(w,) or (w, size) draws from the open unit interval, one row for each agent."""
        raise NotImplementedError

    def normal(self, who: IntArray, size: int | None = None) -> FloatArray:
        """(w,) or (w, size) standard normal draws, by inversion: one uniform for each."""
        return np.asarray(ndtri(self.uniform(who, size)), dtype=np.float64)


class _Seeded(Secret):
    """The secret of a simulation: the next draws of each agent's own stream, so that runs can be repeated."""

    def __init__(self, streams: Streams) -> None:
        self._streams = streams

    def uniform(self, who: IntArray, size: int | None = None) -> FloatArray:
        return self._streams.uniform(who, size)


def _on(seed: np.random.SeedSequence, occasion: tuple[str | int, ...]) -> np.random.SeedSequence:
    """A seed that follows from another one and an occasion."""
    told = "\0".join(map(str, occasion)).encode()
    words = np.frombuffer(hashlib.blake2b(told, digest_size=16).digest(), "<u4").tolist()
    return np.random.SeedSequence(seed.entropy, spawn_key=(*seed.spawn_key, *words))


def _split_mix(seed: WordArray) -> WordArray:
    with np.errstate(over="ignore"):
        z = seed + _GOLDEN
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return np.asarray(z ^ (z >> np.uint64(31)))


@jit_part
def next_uniform(words: WordArray, i: int) -> float:
    """The next draw of agent i from the open unit interval, `words` (n, 4) being those of all streams."""
    a = words[i, 0]
    b = words[i, 1]
    c = words[i, 2]
    d = words[i, 3]
    total = a + d
    result = ((total << np.uint64(23)) | (total >> np.uint64(41))) + a
    shifted = b << np.uint64(17)
    c ^= a
    d ^= b
    b ^= c
    a ^= d
    c ^= shifted
    d = (d << np.uint64(45)) | (d >> np.uint64(19))
    words[i, 0] = a
    words[i, 1] = b
    words[i, 2] = c
    words[i, 3] = d
    # 52 bits, centred in their cell: neither 0 nor 1 can occur, not even by rounding
    return (float(result >> np.uint64(12)) + 0.5) * 2.0**-52


@jit
def _fill_uniform(words: WordArray, who: IntArray, out: FloatArray) -> None:
    for i in range(len(who)):
        for j in range(out.shape[1]):
            out[i, j] = next_uniform(words, who[i])
