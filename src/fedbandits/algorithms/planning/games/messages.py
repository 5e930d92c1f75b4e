"""What members of a team tell each other."""

from __future__ import annotations

from fedbandits.contract.wire import Bound, Ragged, Utterance, WireField
from fedbandits.models.limits import reward

EPISODES = "episodes"
REWARDS = Utterance(
    "rewards",
    "peer",
    (
        WireField("first", dtype="i8"),
        WireField("reward", (Ragged(EPISODES), "H"), raw=True, bound=Bound(reward)),
    ),
)
"""What an agent got in every stage of the episodes that it has not told of yet, of which the number of the first is
given; zero in stages that an episode did not have. States and actions are seen, and not told."""
