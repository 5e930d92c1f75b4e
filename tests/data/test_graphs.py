"""Files of links: what they may hold, where the published ones come from, and what is said when they do not come."""

from __future__ import annotations

import functools
import gzip
import http.server
import os
import threading
from pathlib import Path

import numpy as np
import pytest

from fedbandits.contract.catalogue import ConfigError
from fedbandits.data import graphs
from fedbandits.data.graphs import published, read_links

FIXTURES = Path(__file__).parents[1] / "fixtures"
SNAP = Path(os.environ.get("FEDBANDITS_DATA", "")) / "graphs"


def written(tmp_path, text):
    path = tmp_path / "links.txt"
    path.write_text(text)
    return path


def test_links_hold_both_ways_and_count_once(tmp_path):
    path = written(tmp_path, "# Directed graph\n# FromNodeId\tToNodeId\n7\t3\n3 7\n\n7 9 0.25\n9 9  # itself\n7 3\n")
    links = read_links(path)
    assert links.dtype == np.bool_
    np.testing.assert_array_equal(links.toarray(), [[0, 1, 0], [1, 0, 1], [0, 1, 0]])


def test_a_node_that_only_links_to_itself_is_a_node(tmp_path):
    assert read_links(written(tmp_path, "1 2\n5 5\n")).shape == (3, 3)


def test_a_packed_file_is_read_as_well(tmp_path):
    with gzip.open(tmp_path / "links.txt.gz", "wt") as out:
        out.write("1 2\n")
    assert read_links(tmp_path / "links.txt.gz").nnz == 2


def test_parsed_once_unless_it_changes(tmp_path):
    path = written(tmp_path, "1 2\n")
    first = read_links(path)
    assert read_links(path) is first
    path.write_text("1 2\n2 3\n")
    assert read_links(path).shape == (3, 3)


@pytest.mark.parametrize("text", ["", "# nothing but this\n", "a b\n", "1\n", "1 2\n3\n", "1.5 2\n"])
def test_anything_else_is_refused_by_name(tmp_path, text):
    with pytest.raises(ConfigError, match=r"links\.txt: not in the published format"):
        read_links(written(tmp_path, text))


def test_a_missing_file_is_said_to_be_missing(tmp_path):
    with pytest.raises(ConfigError, match="cannot be read"):
        read_links(tmp_path / "nothing.txt")


def test_the_users_folder_comes_first(monkeypatch):
    monkeypatch.setenv("FEDBANDITS_DATA", str(FIXTURES))
    assert published("facebook").shape == (50, 50)
    assert published("gnutella").shape == (48, 48)


@pytest.fixture
def cache(tmp_path, monkeypatch):
    monkeypatch.delenv("FEDBANDITS_DATA", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    return tmp_path / "cache" / "fedbandits"


@pytest.fixture
def publisher(tmp_path, monkeypatch):
    """A folder that is served in the publisher's place."""
    folder = tmp_path / "served"
    folder.mkdir()

    class Quiet(http.server.SimpleHTTPRequestHandler):
        def log_message(self, *_):
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Quiet, directory=folder))
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    monkeypatch.setattr(graphs, "ADDRESS", f"http://127.0.0.1:{server.server_port}")
    yield folder
    server.shutdown()
    thread.join()
    server.server_close()


def packed(name):
    return gzip.compress((FIXTURES / "graphs" / name).read_bytes())


def test_downloads_each_graph_once(cache, publisher):
    for name, file in graphs.FILES.items():
        archive = publisher / f"{file}.gz"
        archive.write_bytes(packed(file))
        first = published(name)
        archive.unlink()
        assert published(name) is first
    assert {path.name for path in (cache / "graphs").iterdir()} == set(graphs.FILES.values())
    for file in graphs.FILES.values():
        assert (cache / "graphs" / file).read_bytes() == (FIXTURES / "graphs" / file).read_bytes()


def corrupt(raw):
    """The checksum at the end does not fit."""
    return raw[:-8] + bytes(4) + raw[-4:]


@pytest.mark.parametrize(
    ("spoil", "reason"),
    [
        (lambda raw: b"<html>moved</html>", "Not a gzipped file"),
        (lambda raw: raw[:-40], "ended before"),
        (corrupt, "CRC check failed"),
        (lambda raw: gzip.compress(b""), "has 0 bytes"),
        (None, "404"),
    ],
)
def test_a_bad_archive_leaves_nothing_behind(cache, publisher, spoil, reason):
    if spoil is not None:
        (publisher / "facebook_combined.txt.gz").write_bytes(spoil(packed("facebook_combined.txt")))
    with pytest.raises(ConfigError, match=reason) as failure:
        published("facebook")
    assert "graphs lacks facebook_combined.txt" in str(failure.value)
    assert "set FEDBANDITS_DATA to the folder" in str(failure.value)
    assert list(cache.iterdir()) == []


def test_what_unpacks_to_too_much_is_refused(cache, publisher, monkeypatch):
    (publisher / "facebook_combined.txt.gz").write_bytes(packed("facebook_combined.txt"))
    monkeypatch.setattr("fedbandits.data.sources._LARGEST", 700)
    with pytest.raises(ConfigError, match="larger than 700 bytes"):
        published("facebook")


@pytest.mark.parametrize(("name", "nodes", "edges"), [("facebook", 4_039, 88_234), ("gnutella", 6_301, 20_777)])
def test_the_published_graphs_are_those_described(name, nodes, edges, monkeypatch):
    if not (SNAP / graphs.FILES[name]).is_file():
        pytest.skip(f"{graphs.FILES[name]} is not in FEDBANDITS_DATA/graphs")
    links = published(name)
    assert links.shape == (nodes, nodes)
    assert links.nnz == 2 * edges
    assert (links != links.T).nnz == 0
