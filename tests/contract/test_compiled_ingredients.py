"""Compiled rounds are made of what states stand for: where that changes, they are another function."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from fedbandits.contract.compiled import _MEANINGS, choose
from fedbandits.linalg import kernels
from fedbandits.linalg.ingredients import digest
from fedbandits.linalg.jit import jit_inside
from fedbandits.models.optimistic import Optimists
from fedbandits.simulation.rounds import play


class Theirs(NamedTuple):
    theta: np.ndarray


def test_what_states_stand_for_is_part_of_the_rounds(monkeypatch):
    @jit_inside
    def first(agents, i, arms, row, room):
        return 0

    @jit_inside
    def second(agents, i, arms, row, room):
        return 1

    def of_rounds(*kinds: type) -> str:
        return digest(play.py_func, kinds)

    nothing = of_rounds(Theirs)
    monkeypatch.setitem(_MEANINGS, (Theirs, choose), first)
    one = of_rounds(Theirs)
    monkeypatch.setitem(_MEANINGS, (Theirs, choose), second)
    two = of_rounds(Theirs)
    assert len({nothing, one, two}) == 3
    assert of_rounds(Theirs, Optimists) == of_rounds(Optimists, Theirs) != of_rounds(Optimists)


def test_so_is_what_these_call_in_other_modules():
    from fedbandits.linalg import ingredients

    reached, waiting = set(), [play.py_func, _MEANINGS[Optimists, choose].py_func]
    while waiting:
        one = waiting.pop()
        if one not in reached:
            reached.add(one)
            waiting.extend(ingredients._own(one)[1])
    assert kernels.score_by_four.py_func in reached
