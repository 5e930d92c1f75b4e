"""The reference names everything public, under the name by which it is imported, and shows examples as code."""

from __future__ import annotations

import importlib
import importlib.util
import re
from pathlib import Path

import pytest

import fedbandits as fb

DOCS = Path(__file__).parent.parent / "docs"
NAMED = {
    name
    for page in (DOCS / "reference").glob("*.md")
    for name in re.findall(r"^::: (\S+)$", page.read_text(encoding="utf-8"), re.MULTILINE)
}
REGISTRIES = {"ALGORITHMS", "ENVIRONMENTS", "NETWORKS", "STAGES"}
"""Mappings by name, which `fedbandits list` shows."""


def public() -> list[str]:
    modules = [name for name in fb.__all__ if name.islower() and hasattr(getattr(fb, name), "__all__")]
    names = [f"fedbandits.{name}" for name in fb.__all__ if name not in modules]
    return names + [
        f"fedbandits.{module}.{name}"
        for module in modules
        for name in getattr(fb, module).__all__
        if name not in REGISTRIES
    ]


@pytest.mark.parametrize("name", public())
def test_everything_public_is_in_the_reference(name: str) -> None:
    assert name in NAMED


@pytest.mark.parametrize("name", sorted(NAMED))
def test_everything_in_the_reference_can_be_imported(name: str) -> None:
    holder, _, last = name.rpartition(".")
    module = importlib.import_module(holder)
    assert hasattr(module, last) or importlib.util.find_spec(name)


def test_examples_become_code() -> None:
    spec = importlib.util.spec_from_file_location("examples", DOCS / "_extensions" / "examples.py")
    assert spec is not None
    assert spec.loader is not None
    examples = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(examples)
    text = "What it does\n>= 1.\n\n>>> for x in 1, 2:\n...     print(x)\n1\n2\n>>> 3\n3\n\nAnd more.\n"
    code = "\n```pycon\n>>> for x in 1, 2:\n...     print(x)\n1\n2\n>>> 3\n3\n```\n"
    assert examples.fenced(text) == f"What it does\n\\>= 1.\n\n{code}\nAnd more.\n"
