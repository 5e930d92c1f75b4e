"""Help that is complete: nothing is lost on its way to the terminal, and `-h` asks for it everywhere."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest
import typer
from rich.text import Text
from typer.testing import CliRunner

from fedbandits.cli import app

STYLES = re.compile(r"\[/?bold\]")


def commands(command: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    yield path, command
    for name, below in getattr(command, "commands", {}).items():
        yield from commands(below, (*path, name))


COMMANDS = dict(commands(typer.main.get_command(app)))


def shown(*words: str) -> str:
    result = CliRunner().invoke(app, list(words), env={"TERMINAL_WIDTH": "200"})
    assert result.exit_code == 0
    return " ".join(re.sub(r"[│╭╰╮╯─]", " ", result.stdout).split())


@pytest.mark.parametrize("path", COMMANDS, ids=" ".join)
def test_every_word_of_help_is_shown(path: tuple[str, ...]) -> None:
    command, out = COMMANDS[path], shown(*path, "--help")
    for text in (command.help, command.epilog, *(parameter.help for parameter in command.params)):
        for paragraph in STYLES.sub("", text or "").replace("\\[", "[").split("\n\n"):
            assert " ".join(paragraph.split()) in out


@pytest.mark.parametrize("path", COMMANDS, ids=" ".join)
def test_brackets_in_help_are_text_unless_they_are_styles(path: tuple[str, ...]) -> None:
    command = COMMANDS[path]
    for text in filter(None, (command.help, command.epilog, *(parameter.help for parameter in command.params))):
        assert Text.from_markup(text).plain == STYLES.sub("", text).replace("\\[", "[")


@pytest.mark.parametrize("path", COMMANDS, ids=" ".join)
def test_h_is_short_for_help(path: tuple[str, ...]) -> None:
    assert shown(*path, "-h") == shown(*path, "--help")


def test_the_sections_of_an_agent_s_configuration_are_named() -> None:
    out = shown("agent", "serve", "--help")
    assert "[agent] algorithm, dim" in out
    assert "[service] limits" in out
