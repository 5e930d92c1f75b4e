"""Facts: what may be known of a problem beforehand, as in `Agent.open(..., facts=[Noise(0.5), Range(0, 1)])`."""

from fedbandits.contract.facts import (
    RKHS,
    AgentFeatures,
    Candidates,
    Contamination,
    Episodes,
    Fact,
    Game,
    Link,
    Moment,
    Noise,
    Norms,
    Place,
    Range,
    Shared,
    Truth,
)

__all__ = [
    "RKHS",
    "AgentFeatures",
    "Candidates",
    "Contamination",
    "Episodes",
    "Fact",
    "Game",
    "Link",
    "Moment",
    "Noise",
    "Norms",
    "Place",
    "Range",
    "Shared",
    "Truth",
]
