"""Where the files of a public dataset are: given by the user, in the cache, or at the publisher's address.

A dataset is a folder with the publisher's files, unchanged. `Source.folder` looks for it in this order:

1. `$FEDBANDITS_DATA/<name>`;
2. the cache, `$XDG_CACHE_HOME/fedbandits/<name>` (by default `~/.cache/fedbandits/<name>`);
3. the publisher's archive (a zip file, in which files may be packed by `compress`, or one file packed by gzip),
   downloaded once and unpacked into the cache.
"""

from __future__ import annotations

import gzip
import http.client
import logging
import os
import shutil
import tempfile
import urllib.request
import zipfile
import zlib
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import IO, Protocol

from fedbandits.contract.catalogue import ConfigError
from fedbandits.data.lzw import unpacked

VARIABLE = "FEDBANDITS_DATA"
"""The environment variable that names the folder of datasets."""

_LARGEST = 2 * 2**30
"""Bytes an archive, or one file in it, may have: beyond anything published, below a disk full of rubbish."""
_SECONDS = 30.0
"""How long the publisher may be silent."""

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Source:
    """The dataset called `name`: those of its `files` that we read, and the archive that holds them at `url`.

    An archive whose address ends in ``.gz`` holds the one file there is.
    """

    name: str
    files: tuple[str, ...]
    url: str

    def folder(self) -> Path:
        """A folder that holds every file, downloaded if need be; raises `ConfigError` saying what is missing where."""
        given = os.environ.get(VARIABLE)
        cached = cache_folder() / self.name
        places = ([Path(given) / self.name] if given else []) + [cached]
        for place in places:
            if not self._missing(place):
                return place
        try:
            self._download(cached)
        except _FAILURES as error:
            looked = "; ".join(f"{place} lacks {self._told_missing(place)}" for place in places)
            raise ConfigError(
                f"the files of {self.name} are missing: {looked}; downloading {self.url} failed ({error}). "
                f"Unpack that archive into a folder called {self.name} and set {VARIABLE} to the folder that holds it"
                + ("" if given else f" ({VARIABLE} is not set)")
            ) from error
        return cached

    def _missing(self, place: Path) -> list[str]:
        return [file for file in self.files if not (place / file).is_file()]

    def _told_missing(self, place: Path) -> str:
        """What is missing, and what to do about those that lie there packed."""
        told = []
        for file in self._missing(place):
            there = (place / f"{file}.Z").is_file()
            told.append(f"{file} (there is {file}.Z: unpack it by `gzip -d {file}.Z`)" if there else file)
        return ", ".join(told)

    def _download(self, target: Path) -> None:
        """Fetch, check and unpack beside `target`, then move the files in: what is in the cache is whole."""
        _log.info("downloading %s to %s", self.url, target)
        target.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=target.parent, prefix=f".{self.name}-") as scratch:
            archive, unpacked = Path(scratch) / "archive", Path(scratch) / "unpacked"
            unpacked.mkdir()
            _fetch(self.url, archive)
            if self.url.endswith(".gz"):
                self._unpack_one(archive, unpacked)
            else:
                self._unpack(archive, unpacked)
            target.mkdir(exist_ok=True)
            for file in self.files:
                (unpacked / file).replace(target / file)

    def _unpack(self, archive: Path, target: Path) -> None:
        """The files by their names, wherever in the archive they lie; contents are checked against its CRCs."""
        with zipfile.ZipFile(archive) as bundle:
            members = {PurePosixPath(info.filename).name: info for info in bundle.infolist() if not info.is_dir()}
            for file in self.files:
                found = members.get(file) or members.get(f"{file}.Z")
                if found is None:
                    raise _NotTheDatasetError(f"the archive holds no {file}")
                if not 0 < found.file_size <= _LARGEST:
                    raise _NotTheDatasetError(f"{file} in the archive has {found.file_size} bytes")
                with bundle.open(found) as packed, (target / file).open("wb") as plain:
                    if file in members:
                        shutil.copyfileobj(packed, plain)
                    else:
                        plain.write(_unpacked_by_lzw(file, packed.read()))

    def _unpack_one(self, archive: Path, target: Path) -> None:
        """The only file; its contents are checked against the archive's CRC."""
        (file,) = self.files
        with gzip.open(archive) as packed, (target / file).open("wb") as plain:
            if not _copy_at_most(packed, plain, _LARGEST):
                raise _NotTheDatasetError(f"{file} in the archive has 0 bytes")


def _unpacked_by_lzw(file: str, packed: bytes) -> bytes:
    try:
        return unpacked(packed, _LARGEST)
    except ValueError as error:
        raise _NotTheDatasetError(f"{file}.Z in the archive: {error}") from error


class _Readable(Protocol):
    def read(self, size: int, /) -> bytes: ...


class _NotTheDatasetError(Exception):
    """What came is not what was asked for."""


_FAILURES = (OSError, EOFError, http.client.HTTPException, zipfile.BadZipFile, zlib.error, _NotTheDatasetError)
"""Whatever may go wrong between the publisher's address and files in the cache."""


def cache_folder() -> Path:
    """Where this package keeps what it can get or make again."""
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "fedbandits"


def _fetch(url: str, target: Path) -> None:
    with urllib.request.urlopen(url, timeout=_SECONDS) as answer, target.open("wb") as out:
        announced = answer.headers.get("Content-Length")
        received = _copy_at_most(answer, out, _LARGEST)
        if announced is not None and received != int(announced):
            raise _NotTheDatasetError(f"{received} of {announced} bytes arrived")


def _copy_at_most(source: _Readable, target: IO[bytes], limit: int) -> int:
    received = 0
    while chunk := source.read(2**20):
        received += len(chunk)
        if received > limit:
            raise _NotTheDatasetError(f"the archive is larger than {limit} bytes")
        target.write(chunk)
    return received
