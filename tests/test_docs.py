"""The documentation's Python is executed, and what it shows is what it prints.

Guides begin in an empty directory outside the package: their files are written there, and their commands typed.
"""

from __future__ import annotations

import contextlib
import io
import os
import re
import shutil
import subprocess
import sys
import tomllib
import types
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
GUIDES = [ROOT / "docs" / f"{name}.md" for name in ("adding-an-algorithm", "adding-an-environment", "tutorial")]
PAGES = sorted({ROOT / "README.md", *(ROOT / "docs").rglob("*.md")} - set(GUIDES))
FENCE = re.compile(
    r'^```(?P<kind>\w+)(?: title="(?P<file>[^"]+)")?\n(?P<text>.*?)^```$(?:\n```text\n(?P<prints>.*?)^```$)?',
    re.MULTILINE | re.DOTALL,
)


@dataclass(frozen=True)
class Block:
    """What stands between two fences: its language, the file it is, its first line and its text, and what stands
    directly beneath as what it prints.
    """

    kind: str
    file: str | None
    line: int
    text: str
    prints: str | None


def blocks(page: Path) -> list[Block]:
    text = page.read_text(encoding="utf-8")
    return [
        Block(found["kind"], found["file"], text[: found.start()].count("\n") + 1, found["text"], found["prints"])
        for found in FENCE.finditer(text)
    ]


class Reader:
    """Somebody who follows a page: in one Python session, and in a shell beside it."""

    def __init__(self, page: Path, where: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.page, self.where, self.installed = page, where / "here", where / "installed"
        self.where.mkdir()
        self.installed.mkdir()
        monkeypatch.chdir(self.where)
        monkeypatch.syspath_prepend(self.where)
        self.session = types.ModuleType(f"page_{page.stem.replace('-', '_')}")
        monkeypatch.setitem(sys.modules, self.session.__name__, self.session)

    def follow(self) -> None:
        for block in blocks(self.page):
            if block.file is not None:
                (self.where / block.file).write_text(block.text, encoding="utf-8")
            elif block.kind == "python":
                self.execute(block)
            elif block.kind == "console":
                for command, shown in commands(block.text):
                    self.type(command, shown)

    def execute(self, block: Block) -> None:
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            code = compile("\n" * block.line + block.text, str(self.page), "exec", dont_inherit=True)
            exec(code, vars(self.session))
        if block.prints is not None:
            assert printed.getvalue().strip() == block.prints.strip(), f"{self.page.name}:{block.line}"

    def type(self, command: str, shown: list[str]) -> None:
        if command == "pip install .":
            self.install()
            return
        if command.startswith("pip install 'fedbandits"):
            return  # it is: this is its test suite
        done = subprocess.run(
            ["bash", "-ec", command],
            cwd=self.where,
            env=os.environ
            | {
                "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
                "PYTHONPATH": os.pathsep.join([str(self.installed), *filter(None, [os.environ.get("PYTHONPATH")])]),
                "COLUMNS": "200",
            },
            capture_output=True,
            text=True,
            timeout=300,
        )
        assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
        printed = " ".join(done.stdout.split())
        for line in shown:
            assert " ".join(line.split()) in printed, f"{command} prints\n{done.stdout}"

    def install(self) -> None:
        """What an installer leaves behind, without its need for a network."""
        project = tomllib.loads((self.where / "pyproject.toml").read_text())
        name, version = project["project"]["name"], project["project"]["version"]
        about = self.installed / f"{name.replace('-', '_')}-{version}.dist-info"
        about.mkdir()
        (about / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
        groups = project["project"]["entry-points"].items()
        points = [f"[{group}]\n" + "".join(f"{key} = {to}\n" for key, to in held.items()) for group, held in groups]
        (about / "entry_points.txt").write_text("\n".join(points))
        for module in project["tool"]["setuptools"]["py-modules"]:
            shutil.move(self.where / f"{module}.py", self.installed)


def commands(text: str) -> Iterator[tuple[str, list[str]]]:
    """Every command of a console, and the lines that it is shown to print."""
    lines = text.splitlines()
    starts = [at for at, line in enumerate(lines) if line.startswith("$ ")]
    for start, end in zip(starts, [*starts[1:], len(lines)], strict=True):
        yield lines[start].removeprefix("$ "), [line for line in lines[start + 1 : end] if line]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_code_of_page_runs(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    reader = Reader(page, tmp_path, monkeypatch)
    for block in blocks(page):
        if block.kind == "python":
            reader.execute(block)


@pytest.mark.slow
@pytest.mark.parametrize("page", GUIDES, ids=lambda page: page.stem)
def test_guide_begins_in_an_empty_directory(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    modules = {Path(block.file).stem for block in blocks(page) if block.file is not None}
    for name in modules:
        monkeypatch.delitem(sys.modules, name, raising=False)
    try:
        Reader(page, tmp_path, monkeypatch).follow()
    finally:
        for name in modules:
            sys.modules.pop(name, None)
