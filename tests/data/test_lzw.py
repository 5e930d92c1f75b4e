"""Files packed by `compress`: held against a packer written here and against what gzip makes of the same bytes."""

from __future__ import annotations

import shutil
import subprocess

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from lzw_packing import packed

from fedbandits.data.lzw import unpacked

LIMIT = 10**7
gzip = pytest.mark.skipif(shutil.which("gzip") is None, reason="gzip is not installed")


def rows(count: int) -> bytes:
    """Lines of numbers, much as the publisher's file has them."""
    numbers = np.random.default_rng(1).integers(-50, 110, (count, 10))
    return b"".join(b" ".join(str(v).encode() for v in row) + b"\n" for row in numbers)


CASES = {
    "nothing": (b"", 16, ()),
    "one": (b"a", 16, ()),
    "repeated": (b"a" * 5000, 16, ()),
    "several widths": (rows(1000), 16, ()),
    "a full dictionary": (rows(1000), 10, ()),
    "emptied": (rows(1000), 12, (700, 701, 20_000, 20_009)),
    "every byte": (bytes(range(256)) * 3, 16, (5,)),
}


@pytest.mark.parametrize("case", CASES)
def test_what_was_packed_comes_out(case):
    content, widest, empty_at = CASES[case]
    assert unpacked(packed(content, widest, empty_at), LIMIT) == content


@gzip
@pytest.mark.parametrize("case", CASES)
def test_gzip_agrees(case, tmp_path):
    content, widest, empty_at = CASES[case]
    path = tmp_path / "file.Z"
    path.write_bytes(packed(content, widest, empty_at))
    read = subprocess.run(["gzip", "-dc", path], capture_output=True, check=True).stdout
    assert read == unpacked(path.read_bytes(), LIMIT) == content


@given(st.lists(st.sampled_from([b"a", b"b", b"ab", b"\x00", b"abc" * 40]), max_size=60).map(b"".join))
def test_any_words(content):
    assert unpacked(packed(content), LIMIT) == content


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (b"", "not a file"),
        (b"PK\x03\x04", "not a file"),
        (b"\x1f\x9d\x88\x00\x00", "not a file"),
        (b"\x1f\x9d\x90\xff\xff\xff", "damaged"),
    ],
)
def test_anything_else_is_refused(content, told):
    with pytest.raises(ValueError, match=told):
        unpacked(content, LIMIT)


def test_no_more_than_the_limit():
    with pytest.raises(ValueError, match="more than 100 bytes"):
        unpacked(packed(b"a" * 5000), 100)
