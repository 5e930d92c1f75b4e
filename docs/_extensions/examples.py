"""Doctests as code blocks: needs nothing that only builds documentation."""

from __future__ import annotations

import doctest
import re
import textwrap


def fenced(text: str) -> str:
    """`text` with its doctests in fences; other lines that begin with a comparison are no quotations either."""
    shown: list[str] = []
    example: list[str] = []

    def close() -> None:
        if example:
            shown.append(f"\n```pycon\n{textwrap.dedent(''.join(example)).rstrip()}\n```\n")
            example.clear()

    for part in doctest.DocTestParser().parse(text):
        if isinstance(part, str):
            if part.strip():
                close()
                shown.append(re.sub(r"^( *)>", r"\1\\>", part, flags=re.MULTILINE))
            continue
        prompt = " " * part.indent
        source = part.source.rstrip("\n").split("\n")
        lines = [f"{prompt}>>> {source[0]}", *(f"{prompt}... {line}" for line in source[1:])]
        example.append("\n".join(lines) + "\n" + textwrap.indent(part.want, prompt))
    close()
    return "".join(shown)
