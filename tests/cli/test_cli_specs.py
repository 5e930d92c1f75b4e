import math

import pytest

from fedbandits.algorithms import ALGORITHMS
from fedbandits.cli.specs import built, literal, parse
from fedbandits.contract.description import describe
from fedbandits.report.command import spec


@pytest.mark.parametrize(
    "text",
    [
        "random",
        "dislinucb:threshold=2.0",
        "dislinucb:threshold=inf",
        "dislinucb:threshold=released",
        "x=async-linucb:gamma_up=5.0",
    ],
)
def test_specs_survive_a_round_trip(text: str) -> None:
    parsed = parse(text, "-a")
    algorithm = built(ALGORITHMS, parsed, "algorithm")
    written = spec(describe(algorithm), ALGORITHMS, parsed.label)
    assert written == text
    assert built(ALGORITHMS, parse(written, "-a"), "algorithm") == algorithm


def test_values_take_the_type_they_spell() -> None:
    assert (literal("7"), literal("7.5"), literal("none"), literal("theory")) == (7, 7.5, None, "theory")
    assert literal("inf") == math.inf
    assert isinstance(literal("7"), int)


def test_a_label_may_hold_anything_but_a_colon() -> None:
    assert parse("my label=dislinucb:threshold=2", "-a").label == "my label"
