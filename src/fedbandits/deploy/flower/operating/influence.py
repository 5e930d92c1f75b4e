"""What each agent has contributed to what everybody knows, and how far it is from the others.

With G_i and b_i the sums over all that agent i has handed over, G_-i and b_-i those over the others, and theta = G^+ b:

    share       trace(G_i) / sum_j trace(G_j), how much of what is known comes from i
    distance    sqrt((theta_i - theta_-i)^T G_i (theta_i - theta_-i) / (r sigma^2)), r being the rank of G_i: how far
                i's own estimate is from that of the others, in the norm of its own data

Agents with one common parameter have distances near 1, the more so the more data the others have; much more than that
is a lie, a fault, or a parameter of its own. A liar with much data moves what is the others' estimate to everybody
else, too: look at the largest distance first. It tells who is different, not who is right.

G and b are found by what an algorithm declares (`contract.wire.WireField`): a positive semidefinite matrix that adds
up, and a vector that is bounded within it. Without such a pair there is no distance; without such a matrix the share is
that of the observations, or of the norms of the sums.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from fedbandits.contract.arrays import FloatArray
from fedbandits.contract.facts import Noise
from fedbandits.deploy.flower.book.book import Book
from fedbandits.deploy.flower.book.contributions import Contribution
from fedbandits.deploy.flower.conversation.expelling import is_left, retracts
from fedbandits.deploy.flower.trust.meaning import Meaning
from fedbandits.deploy.settings import Settings

_RANK = 1e-10
"""As which share of the largest eigenvalue the others count as zero."""


@dataclass(frozen=True, slots=True)
class Influence:
    """What is known of one agent."""

    agent: int
    share: float | None
    """Of all that was taken in; None where nothing was."""
    distance: float | None
    """From the others; None where there is no estimate."""
    observations: float | None
    """In what was taken in, as far as messages count them; None where they do not."""
    accepted: int
    """Replies that were taken in and handed something over."""
    rejected: int
    """Replies that were not let in, and letters that the agent would not take in."""
    quarantined: int
    """Conversations that it has spoilt, for sure."""
    first_seen: float | None
    """Seconds since 1970."""
    last_seen: float | None
    standing: str
    """"member", "suspended" (see `quarantine`), "expelled" and still in the pool, or "removed" from it."""


class Pair(NamedTuple):
    """Under which keys of a contribution G and b are; None where there is no b."""

    matrix: str
    vector: str | None


def influences(book: Book, settings: Settings) -> list[Influence]:
    """Everybody of whom anything is known, by identity."""
    held, seen = book.contributions.settled(), book.sightings.all()
    expelled, suspended = book.expelled.all(), book.quarantine.suspended()
    spoilt = [who for entry in book.quarantine.entries() if entry.sure for who in entry.guilty]
    rejected: dict[int, int] = {}
    for (_, identity), count in book.rejection_counts().items():
        if identity is not None:
            rejected[identity] = rejected.get(identity, 0) + count
    shares, apart = _shares(held, settings), distances(held, settings)
    can_retract = retracts(settings) if expelled else False
    everybody = held.keys() | seen.keys() | expelled.keys() | rejected.keys() | set(spoilt)
    return [
        Influence(
            agent=who,
            share=shares.get(who),
            distance=apart.get(who),
            observations=None if mine.uncounted else mine.observations,
            accepted=mine.replies,
            rejected=rejected.get(who, 0),
            quarantined=spoilt.count(who),
            first_seen=seen[who].first if who in seen else None,
            last_seen=seen[who].last if who in seen else None,
            standing=_standing(who in expelled, who in suspended, gone=can_retract and not is_left(mine)),
        )
        for who in sorted(everybody)
        for mine in [held.get(who, Contribution())]
    ]


def distances(held: Mapping[int, Contribution], settings: Settings) -> dict[int, float]:
    """How far each agent is from the others, of those who have contributed to an estimate."""
    pair = statistics_pair(settings)
    if pair is None or pair.vector is None:
        return {}
    grams, moments = _of(held, pair.matrix), _of(held, pair.vector)
    sigma = settings.problem.get(Noise, Noise()).sigma or 1.0
    known = {who for who in grams.keys() & moments.keys() if grams[who].any()}
    if len(known) < 2:
        return {}
    gram, moment = (np.sum([sums[who] for who in known], axis=0) for sums in (grams, moments))
    return {who: _distance(grams[who], moments[who], gram, moment, sigma) for who in sorted(known)}


def statistics_pair(settings: Settings) -> Pair | None:
    """Where the statistics are that an algorithm's agents hand over, by what it declares."""
    meaning, found = Meaning(settings.algorithm, settings.problem), None
    for kind in sorted({said.kind for said in settings.algorithm.about.says if said.direction == "up"}):
        fields = meaning.fields(kind, "up")
        for name, item in fields.items():
            if not item.semidefinite or item.adds != "increment":
                continue
            within = [other for other, held in fields.items() if held.bound is not None and held.bound.within == name]
            pair = Pair(f"{kind}.{name}", f"{kind}.{within[0]}" if within else None)
            if found is None or found.vector is None:
                found = pair
    return found


def _distance(own: FloatArray, moment: FloatArray, gram: FloatArray, moments: FloatArray, sigma: float) -> float:
    gap = _estimate(own, moment) - _estimate(gram - own, moments - moment)
    rank = max(1, int(np.linalg.matrix_rank(own, tol=_RANK * max(np.trace(own), 0.0), hermitian=True)))
    return math.sqrt(max(float(gap @ own @ gap), 0.0) / rank) / sigma


def _estimate(gram: FloatArray, moment: FloatArray) -> FloatArray:
    return np.asarray(np.linalg.pinv(gram, rcond=_RANK, hermitian=True) @ moment)


def _shares(held: Mapping[int, Contribution], settings: Settings) -> dict[int, float]:
    pair = statistics_pair(settings)
    if pair is not None:
        amounts = {who: max(float(np.trace(gram)), 0.0) for who, gram in _of(held, pair.matrix).items()}
    elif all(not mine.uncounted for mine in held.values()):
        amounts = {who: mine.observations for who, mine in held.items()}
    else:
        amounts = {who: _norm(mine) for who, mine in held.items()}
    total = sum(amounts.values())
    return {who: amount / total for who, amount in amounts.items()} if total > 0 else {}


def _norm(mine: Contribution) -> float:
    return math.sqrt(sum(float(np.square(array, dtype=np.float64).sum()) for array in mine.sums.values()))


def _of(held: Mapping[int, Contribution], key: str) -> dict[int, FloatArray]:
    return {who: np.asarray(mine.sums[key], dtype=np.float64) for who, mine in held.items() if key in mine.sums}


def _standing(expelled: bool, suspended: bool, *, gone: bool) -> str:
    if expelled:
        return "removed" if gone else "expelled"
    return "suspended" if suspended else "member"
