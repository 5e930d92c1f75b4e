"""What is said of algorithms, environments and networks, and of what too little is known."""

from dataclasses import dataclass

import numpy as np
import pytest

import fedbandits as fb
from fedbandits.contract.description import describe, plain, require_told_apart


class Plain:
    def __init__(self, **held):
        vars(self).update(held)


class Slotted:
    __slots__ = ("size",)


@dataclass(frozen=True)
class Frozen:
    size: int = 3
    held: object = None


def test_all_kinds_are_described_by_one_function():
    assert describe(fb.algorithms.DisLinUCB(threshold=float("inf")))["threshold"] == "inf"
    assert describe(fb.environments.Linear(clients=7)) | {"name": "linear", "clients": 7} == describe(
        fb.environments.Linear(clients=7)
    )
    assert describe(fb.network.Ring(ttl=2))["ttl"] == 2
    assert describe(Frozen(4)) == {"name": "Frozen", "size": 4, "held": None}
    assert describe(Plain(size=4, table=np.eye(2))) == {"name": "Plain", "size": 4, "table": [[1.0, 0.0], [0.0, 1.0]]}
    assert describe(Slotted()) == {"name": "Slotted"}


@pytest.mark.parametrize(
    "thing", [Plain(), Plain(size=1, rates=[0.1, None], table=np.eye(2), by={"a": (1, "b")}), Frozen(held=object())]
)
def test_what_says_its_parameters_can_be_kept(thing):
    require_told_apart(thing)


@pytest.mark.parametrize(
    ("thing", "match"),
    [
        (Plain(size=1, law=Frozen()), r"out: Plain\.law is a Frozen.* make Plain a frozen dataclass"),
        (Plain(rates=[object()]), r"Plain\.rates is a list"),
        (Plain(table=np.array([object()])), r"Plain\.table is a ndarray"),
        (Slotted(), "what a Slotted was made with cannot be seen.* make Slotted a frozen dataclass"),
    ],
)
def test_what_hides_its_parameters_cannot(thing, match):
    with pytest.raises(fb.ConfigError, match=match):
        require_told_apart(thing)


def test_plain_values_are_those_of_json():
    assert plain({"a": np.float64(1.5), "b": (np.int64(2), None, True)}) == {"a": 1.5, "b": [2, None, True]}
    assert plain([float("inf"), float("nan")]) == ["inf", "nan"]
