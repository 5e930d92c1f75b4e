"""Pages say of speed what is on record, and are found out where they do not."""

from __future__ import annotations

import importlib
import json
import re
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PAGES, RECORD = [ROOT / "docs" / name for name in ("speed.md", "which-model.md")], ROOT / "docs" / "speed.json"
PAGE = PAGES[0]


@pytest.fixture(scope="module")
def page():
    sys.path.insert(0, str(ROOT))
    try:
        yield importlib.import_module("benchmarks.page")
    finally:
        sys.path.remove(str(ROOT))


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.stem)
def test_pages_say_what_was_measured(page, path):
    said = path.read_text(encoding="utf-8")
    assert page.filled(said, json.loads(RECORD.read_text(encoding="utf-8"))) == said, "run python -m benchmarks.page"


def test_everything_that_is_measured_is_told_once(page):
    told = [mark["name"] for path in PAGES for mark in page.MARK.finditer(path.read_text(encoding="utf-8"))]
    assert sorted(page.TABLES) == sorted(told)


def test_other_figures_are_found_out(page, tmp_path, monkeypatch):
    wrong = tmp_path / "speed.md"
    wrong.write_text(re.sub(r"\d+ of 15 aims", "99 of 15 aims", PAGE.read_text(encoding="utf-8")), encoding="utf-8")
    asked = ["page", str(wrong), "--record", str(RECORD)]
    monkeypatch.setattr(sys, "argv", [*asked, "--check"])
    with pytest.raises(SystemExit, match="says other things"):
        page.main()
    monkeypatch.setattr(sys, "argv", asked)
    page.main()
    assert wrong.read_text(encoding="utf-8") == PAGE.read_text(encoding="utf-8")


def test_there_is_no_such_table(page):
    with pytest.raises(SystemExit, match="there is no such table; there are agent, "):
        page.filled("<!-- speed wrong --><!-- /speed -->", {})


@pytest.mark.parametrize(
    ("value", "said"),
    [(0.0, "0"), (0.0123, "0.012"), (0.5, "0.5"), (9.87, "9.9"), (12.3, "12"), (1234567.8, "1,234,568")],
)
def test_figures_have_the_digits_that_mean_something(page, value, said):
    assert importlib.import_module("benchmarks.tables").figure(value) == said
