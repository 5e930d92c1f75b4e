"""Results of parsing large files are kept, and never outlive what they were made of."""

from __future__ import annotations

import os

import numpy as np
import pytest

from fedbandits.data import parsed
from fedbandits.data.parsed import remembered


class Parser:
    def __init__(self):
        self.calls = 0

    def __call__(self):
        self.calls += 1
        return {"a": np.arange(3), "b": np.full((2, 2), float(self.calls))}


@pytest.fixture
def file(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(parsed, "_LARGE", 4)
    path = tmp_path / "data"
    path.write_text("12345")
    return path


def test_parses_once_for_each_file_and_recipe(file):
    parse = Parser()
    first, again = remembered([file], "recipe", parse), remembered([file], "recipe", parse)
    assert parse.calls == 1
    assert first.keys() == again.keys()
    assert all(np.array_equal(first[name], again[name]) and first[name].dtype == again[name].dtype for name in first)
    assert remembered([file], "another", parse)["b"][0, 0] == 2
    os.utime(file, (1, 1))
    assert remembered([file], "recipe", parse)["b"][0, 0] == 3


def test_small_files_are_parsed_again(file):
    parse = Parser()
    file.write_text("1")
    for calls in (1, 2):
        remembered([file], "recipe", parse)
        assert parse.calls == calls


def test_a_spoilt_result_is_made_anew(file, tmp_path):
    parse = Parser()
    remembered([file], "recipe", parse)
    (kept,) = (tmp_path / "cache").rglob("*.npz")
    for content in (b"", b"rubbish", kept.read_bytes()[:-20]):
        kept.write_bytes(content)
        before = parse.calls
        remembered([file], "recipe", parse)
        assert parse.calls == before + 1


def test_a_cache_that_cannot_be_written_is_no_failure(file, tmp_path):
    (tmp_path / "cache").write_text("a file where the folder should be")
    assert remembered([file], "recipe", Parser())["b"][0, 0] == 1
