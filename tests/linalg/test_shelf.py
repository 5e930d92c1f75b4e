"""What is compiled for types of other packages is not kept: nobody stumbles over them who does not know these."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

KERNELS = """
import numba
from fedbandits.linalg.jit import jit

def total(pair, by):
    return pair[0] + pair[1] + by[0].shape[0]

kept_by_us = jit(total)
kept_by_numba = numba.njit(cache=True)(total)
"""
STATES = """
from typing import NamedTuple

class Pair(NamedTuple):
    first: float
    second: float
"""
CALL = """
import sys
sys.path.insert(0, {where!r})
import numpy as np
from fedbandits.linalg.shelf import is_at_hand, kinds_of
from mine_alone.kernels import kept_by_numba, kept_by_us
from {module} import {name} as Pair
by = (np.zeros(3),)
at_hand = is_at_hand(kept_by_us, kinds_of(kept_by_us, (Pair(*({values})), by)))
assert {function}(Pair(*({values})), by) == 6
hits = sum({function}.stats.cache_hits.values())
assert at_hand == hits or {function} is kept_by_numba
print(hits)
"""


@pytest.fixture
def where(tmp_path) -> Path:
    (tmp_path / "mine_alone").mkdir()
    (tmp_path / "mine_alone" / "__init__.py").touch()
    (tmp_path / "mine_alone" / "kernels.py").write_text(KERNELS)
    (tmp_path / "mine_alone" / "states.py").write_text(STATES)
    (tmp_path / "of_others.py").write_text(STATES)
    return tmp_path


def hits(where: Path, module: str, name: str = "Pair", values: str = "1.0, 2.0", function: str = "kept_by_us") -> int:
    """What a new process calls; how much of it was on disk."""
    code = CALL.format(where=str(where), module=module, name=name, values=values, function=function)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    return int(done.stdout.split()[-1])


def test_types_of_the_functions_own_package_and_of_ours_are_kept(where):
    assert hits(where, "mine_alone.states") == 0
    assert hits(where, "mine_alone.states") == 1


def test_types_of_others_are_compiled_each_time_and_leave_nothing(where):
    assert hits(where, "of_others") == 0
    assert hits(where, "of_others") == 0
    assert not list(where.rglob("*.nbi"))
    assert hits(where, "mine_alone.states") == 0
    (where / "of_others.py").unlink()
    assert hits(where, "mine_alone.states") == 1


def test_an_index_that_names_what_is_gone_is_begun_anew(where):
    assert hits(where, "of_others", function="kept_by_numba") == 0
    (where / "of_others.py").unlink()
    for compiled in (where / "of_others.py").parent.glob("__pycache__/of_others*"):
        compiled.unlink()
    assert hits(where, "mine_alone.states") == 0
    assert hits(where, "mine_alone.states") == 1


KERNEL = """
from fedbandits.linalg.jit import jit, jit_inside, jit_part
from in_parts import parts

@jit
def total(x):
    return parts.weighed(x) + parts.OFFSET
"""
PARTS = """
from fedbandits.linalg.jit import jit_inside, jit_part
OFFSET = 1

@jit_part
def twice(x):
    return 2 * x

@jit_part
def weighed(x):
    return twice(x)
"""
TOTAL = """
import sys
sys.path.insert(0, {where!r})
from in_parts.kernel import total
print(total(10), sum(total.stats.cache_hits.values()))
"""


@pytest.mark.parametrize(
    ("before", "after", "value"),
    [
        ("2 * x", "3 * x", 31),
        ("OFFSET = 1", "OFFSET = 5", 25),
        ("@jit_part\ndef twice", "@jit_inside\ndef twice", 21),
    ],
)
def test_what_was_made_of_something_else_is_made_anew(tmp_path, before, after, value):
    (tmp_path / "in_parts").mkdir()
    (tmp_path / "in_parts" / "__init__.py").touch()
    (tmp_path / "in_parts" / "kernel.py").write_text(KERNEL)
    (tmp_path / "in_parts" / "parts.py").write_text(PARTS)

    def called() -> list[int]:
        code = TOTAL.format(where=str(tmp_path))
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=False)
        assert done.returncode == 0, done.stderr
        return [int(word) for word in done.stdout.split()]

    assert called() == [21, 0]
    assert called() == [21, 1], "nothing has changed"
    (tmp_path / "in_parts" / "parts.py").write_text("# another line\n" + PARTS)
    assert called() == [21, 1], "nothing that is part of it has"
    (tmp_path / "in_parts" / "parts.py").write_text(PARTS.replace(before, after))
    assert called() == [value, 0]
    assert called() == [value, 1]


def test_what_is_said_of_a_function_is_no_part_of_it_and_neither_are_objects():
    from fedbandits.linalg.ingredients import digest

    def made(text: str, things: tuple[object, ...]) -> str:
        names: dict[str, object] = {"THINGS": things, "__name__": "fedbandits.made_up"}
        exec(f'def total(x):\n    """{text}"""\n    return x + THINGS[0]', names)
        return digest(names["total"], [])

    assert made("One.", (1, "a")) == made("Two.", (1, "a"))
    assert made("One.", (1, "a")) != made("One.", (2, "a"))
    assert made("One.", (object(),)) == made("One.", (object(),)), "whose words differ from process to process"


def test_a_variable_that_is_not_there_yet_is_passed_over():
    from fedbandits.linalg.ingredients import digest

    def outer():
        def inner(x):
            return x + later

        found = digest(inner, [])
        later = 1
        return found, digest(inner, []), later

    before, _, _ = outer()
    assert len(before) == 64
