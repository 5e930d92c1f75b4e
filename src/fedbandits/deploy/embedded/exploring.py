"""What is recorded of a choice: the score of the arm, and with which probability it was taken.

With the setting `explore` = e an agent takes a uniformly random arm with probability e. Its algorithm is asked all the
same, so that it goes on as without. The probability of an arm k of K is then

    propensity(k) = e / K + (1 - e) chance(k),

where chance(k) is what the algorithm tells (`Population.chances`), or 1 for the arm it takes and 0 for the others if
it does not draw. Rewards divided by propensities estimate what any other rule would have earned, without bias as far
as chances are exact, if e > 0: every arm that rule might take could have been taken.
"""

from __future__ import annotations

import math
import random
from dataclasses import dataclass

from fedbandits.contract.arrays import FloatArray
from fedbandits.deploy.storage.entries import ChosenBy


@dataclass(frozen=True, slots=True)
class Considered:
    """The arm that an algorithm takes, and what it thinks of all, (K,) each: scores and chances as it tells them."""

    pick: int
    scores: FloatArray | None
    chances: FloatArray | None


@dataclass(frozen=True, slots=True)
class Choice:
    """An arm, its score if anything was compared, and the probability with which it was taken."""

    pick: int
    score: float | None
    propensity: float
    chosen_by: ChosenBy


def choice(considered: Considered, arms: int, explore: float, rng: random.Random) -> Choice:
    """What is done where an algorithm has `considered` as many `arms`.

    The draw need not be repeatable: what came of it is written down, and who chose.
    """
    pick, by = considered.pick, ChosenBy.ALGORITHM
    if explore > 0 and rng.random() < explore:
        pick, by = rng.randrange(arms), ChosenBy.CHANCE
    chance = float(pick == considered.pick) if considered.chances is None else float(considered.chances[pick])
    return Choice(pick, _score(considered, pick), explore / arms + (1 - explore) * chance, by)


def _score(considered: Considered, pick: int) -> float | None:
    if considered.scores is None:
        return None
    score = float(considered.scores[pick])
    return None if math.isnan(score) else score
