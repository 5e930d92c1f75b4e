"""Facts: what may be known of a problem beforehand, one small file for each kind of knowledge."""

from fedbandits.contract.facts.agent_features import AgentFeatures
from fedbandits.contract.facts.answers import Answers
from fedbandits.contract.facts.candidates import Candidates
from fedbandits.contract.facts.contamination import Contamination
from fedbandits.contract.facts.distortion import Distortion
from fedbandits.contract.facts.embedding import Embedding
from fedbandits.contract.facts.episodes import Episodes
from fedbandits.contract.facts.fact import Fact
from fedbandits.contract.facts.game import Game
from fedbandits.contract.facts.link import Link
from fedbandits.contract.facts.moment import Moment
from fedbandits.contract.facts.noise import Noise
from fedbandits.contract.facts.norms import Norms
from fedbandits.contract.facts.perturbation import Perturbation
from fedbandits.contract.facts.place import Place
from fedbandits.contract.facts.questions import Questions
from fedbandits.contract.facts.range import Range
from fedbandits.contract.facts.ridge import Ridge
from fedbandits.contract.facts.rkhs import RKHS
from fedbandits.contract.facts.shared import Shared
from fedbandits.contract.facts.trained import Trained
from fedbandits.contract.facts.truth import Truth

FACTS: dict[str, type[Fact]] = {
    kind.name: kind
    for kind in (
        *(Noise, Norms, Link, Shared, Moment, Contamination, Range, RKHS, AgentFeatures, Candidates, Episodes, Game),
    )
}
"""Those that configuration files may tell, by name."""

__all__ = [
    "FACTS",
    "RKHS",
    "AgentFeatures",
    "Answers",
    "Candidates",
    "Contamination",
    "Distortion",
    "Embedding",
    "Episodes",
    "Fact",
    "Game",
    "Link",
    "Moment",
    "Noise",
    "Norms",
    "Perturbation",
    "Place",
    "Questions",
    "Range",
    "Ridge",
    "Shared",
    "Trained",
    "Truth",
]
