import math

import pytest

from fedbandits.contract.catalogue import ConfigError
from fedbandits.contract.specs import Spec, literal, parse


def test_values_take_the_type_they_spell() -> None:
    assert (literal("7"), literal("7.5"), literal("none"), literal("theory")) == (7, 7.5, None, "theory")
    assert literal("inf") == math.inf
    assert isinstance(literal("7"), int)


def test_a_label_may_hold_anything_but_a_colon() -> None:
    assert parse("my label=dislinucb:threshold=2") == Spec("dislinucb", {"threshold": 2}, "my label")


def test_spaces_around_words_are_no_part_of_them() -> None:
    assert parse(" low = dislinucb : threshold = 2 , width = theory ") == Spec(
        "dislinucb", {"threshold": 2, "width": "theory"}, "low"
    )


@pytest.mark.parametrize(
    ("text", "match"),
    [
        ("", "a name is missing; write NAME:KEY=VALUE"),
        (":threshold=2", "a name is missing"),
        ("low=", "a name is missing"),
        ("=dislinucb", "a label is missing; write LABEL=NAME"),
        ("ring:ttl=", r"-n 'ring:ttl=': 'ttl=' is not KEY=VALUE; write ring:KEY=VALUE"),
        ("ring:ttl=1,", "'' is not KEY=VALUE"),
        ("ring:", "a name is missing"),
        ("ring:ttl=1,ttl=2", "'ttl' is given twice; leave one out"),
    ],
)
def test_what_is_wrong_is_named(text: str, match: str) -> None:
    with pytest.raises(ConfigError, match=match):
        parse(text, "-n")
