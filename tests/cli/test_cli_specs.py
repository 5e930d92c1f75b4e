import pytest

from fedbandits.algorithms import ALGORITHMS
from fedbandits.contract.description import describe
from fedbandits.report.command import spec
from fedbandits.simulation.arguments import algorithms_of


@pytest.mark.parametrize(
    "text",
    [
        "random",
        "dislinucb:threshold=2.0",
        "dislinucb:threshold=inf",
        "dislinucb:threshold=released",
        "x=async-linucb:gamma_up=5.0",
        "dislinucb|quantise",
        "dislinucb:threshold=2.0|quantise:bits=12",
        "y=dislinucb|gaussian:epsilon=0.5,own=fused|quantise",
    ],
)
def test_specs_survive_a_round_trip(text: str) -> None:
    [(label, algorithm)] = algorithms_of(text, "-a").items()
    written = spec(describe(algorithm), ALGORITHMS, label)
    assert written == text
    assert algorithms_of(written, "-a") == {label: algorithm}


def test_labels_made_up_for_namesakes_survive_a_round_trip() -> None:
    staged = ["dislinucb|gaussian:epsilon=2.0", "dislinucb|gaussian:epsilon=3.0"]
    named = algorithms_of(["dislinucb:threshold=1", "dislinucb:threshold=2,width=0.5", *staged], "-a")
    written = [spec(describe(algorithm), ALGORITHMS, label) for label, algorithm in named.items()]
    assert algorithms_of(written, "-a") == named
