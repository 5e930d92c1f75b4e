"""What is left to `make test-thorough` is there, and its neighbours are not left out with it."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from thoroughness import NAMED, is_thorough

ROOT = Path(__file__).parents[1]


@pytest.mark.parametrize("name", sorted(NAMED))
def test_there_is_such_a_thing(name):
    path, *inner = name.partition("[")[0].split("::")
    assert (ROOT / path).exists()
    found = ast.parse((ROOT / path).read_text()).body if inner else []
    for part in inner:
        named = {one.name: one for one in found if isinstance(one, ast.ClassDef | ast.FunctionDef)}
        assert part in named, (
            f"{name}: there is no {part}; strike it from thorough.toml, or call it what it is called now"
        )
        found = named[part].body


@pytest.mark.parametrize("name", sorted(NAMED))
def test_nothing_is_named_twice(name):
    assert sum(other == name or name.startswith((f"{other}::", f"{other}/")) for other in NAMED) == 1


@pytest.mark.parametrize(
    ("test", "thorough"),
    [
        ("tests/linalg/test_shelf.py::test_anything[case::1]", True),
        ("tests/linalg/test_shelf_of_others.py::test_anything", False),
        ("tests/algorithms/kernel/graph/test_in_company.py::test_anything", True),
        ("tests/graphs/test_structure.py::TestLarge::test_anything[a[b]]", True),
        ("tests/graphs/test_structure.py::TestLarger::test_anything", False),
        ("tests/test_docs.py::test_code_of_page_runs[docs/games.md]", True),
        ("tests/test_docs.py::test_code_of_page_runs[docs/planning.md]", False),
        ("tests/graphs/test_sampling.py::test_the_law_of_the_walk", True),
        ("tests/graphs/test_sampling.py::test_the_law_of_the_walks", False),
    ],
)
def test_what_a_name_covers(test, thorough):
    assert is_thorough(test) == thorough
