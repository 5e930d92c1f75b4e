"""Classes whose source is in no file are known by what they do."""

from __future__ import annotations

import sys
import threading
from types import ModuleType

import pytest

import fedbandits as fb
from fedbandits.algorithms import Random
from fedbandits.studies.fileless import digest_of_class, is_fileless

SOURCE = """
import functools
from dataclasses import dataclass
import numpy as np
from fedbandits.algorithms import Random
from numba import njit

RATE = 0.5
TABLE = {"low": [1, 2, 1]}

def double(x):
    return 2 * x

@njit
def shifted(x):
    return x + 1

@dataclass(frozen=True)
class Law:
    scale: float = 1.0
    def draw(self):
        return self.scale

LAW = Law()

class Mine(Random):
    sizes = (1, 1, 2)

    def agents(self, problem, n, rng):
        def inner():
            return double(RATE) + LAW.draw() + TABLE["low"][0] + shifted(1.0)
        return inner() + np.pi

    @property
    def size(self):
        return 1

    @functools.cached_property
    def cached(self):
        return 2

    @staticmethod
    def still():
        return 3

    def again(self):
        return Mine

    def with_default(self, size=4, *, more=5):
        return size
"""


def typed(source: str) -> type:
    module = sys.modules["typed_in"] = ModuleType("typed_in")
    exec(compile(source, "<typed>", "exec", dont_inherit=True), vars(module))
    return module.Mine


def digest(source: str, unknown: str = "unknown") -> str:
    return digest_of_class(typed(source), unknown)[0]


def test_the_same_code_has_the_same_digest_wherever_it_stands():
    assert is_fileless(typed(SOURCE))
    assert digest(SOURCE) == digest("\n\n# a remark\n" + SOURCE) == digest(SOURCE, "another")


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("RATE = 0.5", "RATE = 0.25"),
        ('"low": [1, 2, 1]', '"low": [1, 1, 2]'),
        ("return 2 * x", "return 3 * x"),
        ("return x + 1", "return x + 2"),
        ("return self.scale", "return -self.scale"),
        ("LAW = Law()", "LAW = Law(2.0)"),
        ("sizes = (1, 1, 2)", "sizes = (1, 2, 1)"),
        ("double(RATE) +", "double(RATE) -"),
        ("np.pi", "np.e"),
        ("return 1", "return 10"),
        ("return 2\n", "return 20\n"),
        ("return 3\n", "return 30\n"),
        ("size=4", "size=40"),
        ("more=5", "more=50"),
        ("class Mine(Random)", "class Mine(Law)"),
    ],
)
def test_any_change_of_what_it_does_is_seen(old, new):
    assert old in SOURCE
    assert digest(SOURCE) != digest(SOURCE.replace(old, new))


def test_modules_that_it_names_are_told():
    _, modules = digest_of_class(typed(SOURCE), "unknown")
    assert {"numpy", "fedbandits.algorithms.random"} <= modules


def test_what_cannot_be_read_is_unknown():
    source = "import threading\nclass Mine:\n    lock = threading.Lock()\n"
    assert digest(source, "one") != digest(source, "two")


@pytest.mark.parametrize("kind", [Random, fb.environments.Linear, int, threading.Thread])
def test_what_is_in_a_file_is_not_read_here(kind):
    assert not is_fileless(kind)
