"""Text from nodes is data: it stays on its line, is short, and shows what it is."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedbandits.deploy.text import MOST, shown

ANYTHING = st.text(st.characters(exclude_categories=()), max_size=300)


@given(ANYTHING)
def test_whatever_is_written_stays_on_one_line_and_can_be_printed(text):
    result = shown(text)
    assert len(result) <= MOST
    assert result.isprintable()
    assert len(result.splitlines()) <= 1
    result.encode("utf-8")
    assert shown(result) == result, "asked twice, it stays as it is"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("ordinary words, Käse, 決定 and 🙂", "ordinary words, Käse, 決定 and 🙂"),
        ("a\n2026-01-01 12:00:00,000 INFO b", r"a\n2026-01-01 12:00:00,000 INFO b"),
        ("\r\x1b[2K\x1b[31mgone\x07", r"\r\x1b[2K\x1b[31mgone\x07"),
        ("\x9b31m\x85", r"\x9b31m\x85"),
        ("user\u202etxt.exe\u2066", r"user\u202etxt.exe\u2066"),
        ("\u2028\u2029\ud800", r"\u2028\u2029\ud800"),
    ],
)
def test_what_is_not_shown_as_itself_is_escaped(text, expected):
    assert shown(text) == expected


def test_long_text_is_cut_and_never_in_the_middle_of_an_escape():
    assert shown("x" * 10_000_000) == "x" * (MOST - 1) + "…"
    assert shown("x" * 8 + "\x1b[", most=10) == "x" * 8 + "…"


class Unspeakable:
    def __str__(self):
        raise RuntimeError("no")


def test_what_is_no_text_is_shown_all_the_same():
    assert shown(None) == "None"
    assert shown(b"\n") == r"b'\n'"
    assert shown(Unspeakable()) == "<Unspeakable>"
