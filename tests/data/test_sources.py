"""Finding files: in the user's folder, in the cache, at the publisher's address (here a server on the loopback)."""

from __future__ import annotations

import functools
import http.server
import threading
import zipfile
from dataclasses import replace
from pathlib import Path

import pytest
from lzw_packing import packed

from fedbandits.contract.catalogue import ConfigError
from fedbandits.data.sources import Source
from fedbandits.environments import lastfm
from fedbandits.environments.lastfm import LastFM

FIXTURES = Path(__file__).parents[1] / "fixtures"
NOBODY = "http://127.0.0.1:9/archive.zip"
SOURCE = Source("lastfm-2k", ("tags.dat", "user_taggedartists.dat"), NOBODY)


@pytest.fixture
def cache(tmp_path, monkeypatch):
    monkeypatch.delenv("FEDBANDITS_DATA", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    return tmp_path / "cache" / "fedbandits"


@pytest.fixture
def publisher(tmp_path):
    """A folder and the address it is served at."""
    folder = tmp_path / "served"
    folder.mkdir()

    class Quiet(http.server.SimpleHTTPRequestHandler):
        def log_message(self, *_):
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Quiet, directory=folder))
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield folder, f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join()
    server.server_close()


def archive(path, files, inside=""):
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as bundle:
        for file in files:
            bundle.write(FIXTURES / "lastfm-2k" / file, inside + file)
    return path


def test_the_users_folder_comes_first(cache, monkeypatch):
    monkeypatch.setenv("FEDBANDITS_DATA", str(FIXTURES))
    assert SOURCE.folder() == FIXTURES / "lastfm-2k"
    assert not cache.exists()


def test_the_cache_comes_next(cache, tmp_path, monkeypatch):
    monkeypatch.setenv("FEDBANDITS_DATA", str(tmp_path / "nothing-here"))
    place = cache / "lastfm-2k"
    place.mkdir(parents=True)
    for file in SOURCE.files:
        (place / file).write_bytes(b"x")
    assert SOURCE.folder() == place


@pytest.mark.parametrize("inside", ["", "lastfm-2k/"])
def test_downloads_once_into_the_cache(cache, publisher, inside):
    folder, address = publisher
    served = archive(folder / "a.zip", [*SOURCE.files, "user_taggedartists-timestamps.dat"], inside)
    source = replace(SOURCE, url=f"{address}/a.zip")
    place = source.folder()
    assert place == cache / "lastfm-2k"
    assert sorted(path.name for path in place.iterdir()) == sorted(SOURCE.files)
    assert [path.name for path in cache.iterdir()] == ["lastfm-2k"]
    for file in SOURCE.files:
        assert (place / file).read_bytes() == (FIXTURES / "lastfm-2k" / file).read_bytes()
    served.unlink()
    assert source.folder() == place


def test_an_environment_downloads_its_own_files(cache, publisher, monkeypatch):
    folder, address = publisher
    archive(folder / "a.zip", SOURCE.files)
    monkeypatch.setattr(lastfm, "ARCHIVE", f"{address}/a.zip")
    assert len(LastFM(min_events=5, dim=4, arms=4).read().users) == 18


def test_says_what_is_missing_where_and_what_to_set(cache, tmp_path, monkeypatch):
    with pytest.raises(ConfigError, match="FEDBANDITS_DATA is not set"):
        SOURCE.folder()
    given = tmp_path / "given" / "lastfm-2k"
    given.mkdir(parents=True)
    (given / "tags.dat").write_bytes(b"x")
    monkeypatch.setenv("FEDBANDITS_DATA", str(given.parent))
    with pytest.raises(ConfigError) as failure:
        SOURCE.folder()
    said = str(failure.value)
    assert f"{given} lacks user_taggedartists.dat" in said
    assert f"{cache / 'lastfm-2k'} lacks tags.dat, user_taggedartists.dat" in said
    assert NOBODY in said
    assert "set FEDBANDITS_DATA" in said


def truncated(path):
    path.write_bytes(archive(path, SOURCE.files).read_bytes()[:-30])


def corrupt(path):
    """One byte of the first file's data flipped: only its checksum can tell."""
    raw = bytearray(archive(path, SOURCE.files).read_bytes())
    raw[60] ^= 0xFF
    path.write_bytes(raw)


def empty_member(path):
    with zipfile.ZipFile(path, "w") as bundle:
        for file in SOURCE.files:
            bundle.writestr(file, "")


@pytest.mark.parametrize(
    ("serve", "reason"),
    [
        (lambda path: path.write_bytes(b"<html>moved</html>"), "not a zip file"),
        (truncated, "not a zip file"),
        (corrupt, "failed"),
        (empty_member, "has 0 bytes"),
        (lambda path: archive(path, ["tags.dat"]), "holds no user_taggedartists.dat"),
        (lambda path: None, "404"),
    ],
)
def test_a_bad_archive_leaves_nothing_behind(cache, publisher, serve, reason):
    folder, address = publisher
    serve(folder / "a.zip")
    with pytest.raises(ConfigError, match=reason):
        replace(SOURCE, url=f"{address}/a.zip").folder()
    assert list(cache.iterdir()) == []


def test_an_oversized_archive_is_refused(cache, publisher, monkeypatch):
    folder, address = publisher
    archive(folder / "a.zip", SOURCE.files)
    monkeypatch.setattr("fedbandits.data.sources._LARGEST", 100)
    with pytest.raises(ConfigError, match="larger than 100 bytes"):
        replace(SOURCE, url=f"{address}/a.zip").folder()


def test_files_that_the_publisher_packed_are_unpacked(cache, publisher):
    folder, address = publisher
    content = b"1 2 3\n" * 400
    with zipfile.ZipFile(folder / "z.zip", "w") as bundle:
        bundle.writestr("shuttle.trn.Z", packed(content))
    source = Source("uci", ("shuttle.trn",), f"{address}/z.zip")
    assert (source.folder() / "shuttle.trn").read_bytes() == content


def test_a_packed_file_that_is_damaged_is_told(cache, publisher):
    folder, address = publisher
    with zipfile.ZipFile(folder / "z.zip", "w") as bundle:
        bundle.writestr("shuttle.trn.Z", b"\x1f\x9d\x90\xff\xff\xff")
    with pytest.raises(ConfigError, match=r"shuttle\.trn\.Z in the archive: damaged"):
        Source("uci", ("shuttle.trn",), f"{address}/z.zip").folder()


def test_a_file_that_lies_there_packed_is_named_with_what_unpacks_it(cache, tmp_path, monkeypatch):
    monkeypatch.setenv("FEDBANDITS_DATA", str(tmp_path))
    (tmp_path / "uci").mkdir()
    (tmp_path / "uci" / "shuttle.trn.Z").write_bytes(packed(b"1"))
    with pytest.raises(ConfigError, match=r"there is shuttle\.trn\.Z: unpack it by `gzip -d shuttle\.trn\.Z`"):
        Source("uci", ("shuttle.trn",), NOBODY).folder()
