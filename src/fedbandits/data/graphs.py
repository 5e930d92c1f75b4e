"""Published graphs: files of links, one `u v` to a line, as the Stanford Network Analysis Project gives them out.

- ego-Facebook (McAuley & Leskovec, 2012): 4,039 people, 88,234 friendships.
- p2p-Gnutella08 (Ripeanu, Foster & Iamnitchi, 2002): 6,301 hosts and 20,777 connections of the file-sharing network
  Gnutella on 8 August 2002. Dubey (2022), thesis, section 4.4 uses p2p-Gnutella04: the same network four days before.

Each is one file in `$FEDBANDITS_DATA/graphs` or in the cache, or is downloaded; see `sources`.
"""

from __future__ import annotations

import warnings
from functools import lru_cache
from pathlib import Path

import numpy as np
from scipy import sparse

from fedbandits.contract.catalogue import ConfigError
from fedbandits.data.formats import published_format
from fedbandits.data.sources import Source

ADDRESS = "https://snap.stanford.edu/data"
FILES = {"facebook": "facebook_combined.txt", "gnutella": "p2p-Gnutella08.txt"}


def published(name: str) -> sparse.csr_array:
    """The graph called "facebook" or "gnutella", as `read_links` gives it; raises `ConfigError` if it cannot be had."""
    file = FILES[name]
    return read_links(Source("graphs", (file,), f"{ADDRESS}/{file}.gz").folder() / file)


def read_links(path: Path) -> sparse.csr_array:
    """The graph in a file of `u v` lines as a symmetric boolean adjacency matrix.

    Nodes may have any integers for names; they are numbered in the order of these. A link holds both ways, whatever
    the direction it is written in; repeated links count once, and links of a node to itself not at all. Columns after
    the second, empty lines and what follows a `#` are passed over. A file is parsed once per process, unless it
    changes; do not change the result. Raises `ConfigError` if the file is missing or holds anything else.
    """
    try:
        status = path.stat()
    except OSError as error:
        raise ConfigError(f"{path}: the file of links cannot be read ({error.strerror})") from error
    return _parsed(path.resolve(), status.st_size, status.st_mtime_ns)


@lru_cache(maxsize=4)
def _parsed(path: Path, size: int, changed: int) -> sparse.csr_array:
    with published_format(path), warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # that the file is empty we say ourselves
        ends = np.loadtxt(path, dtype=np.int64, comments="#", usecols=(0, 1), ndmin=2)
        if not len(ends):
            raise ValueError("it holds no link")
    names, node = np.unique(ends, return_inverse=True)
    u, v = node.reshape(-1, 2)[ends[:, 0] != ends[:, 1]].T
    both = (np.concatenate([u, v]), np.concatenate([v, u]))
    links = sparse.coo_array((np.ones(2 * len(u), dtype=np.bool_), both), shape=(len(names), len(names))).tocsr()
    links.sum_duplicates()
    return links
