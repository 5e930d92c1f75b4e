"""Text that others have written, made harmless before it is logged, printed or stored.

What a node calls itself, why it refuses a letter, what its errors say: all of it is chosen by whoever runs the node.
As it is, a line break in it forges a line of the log, an escape sequence repaints a terminal, a bidirectional control
shows one thing and means another, and a gigabyte of it fills a disk.
"""

from __future__ import annotations

MOST = 200
"""How many characters of a foreign text are kept."""


def shown(text: object, most: int = MOST) -> str:
    r"""`text` on one line of at most `most` characters, with everything escaped that is not shown as itself: controls,
    line breaks, bidirectional and other invisible formats, surrogates, and spaces that are not the usual one.

    >>> shown("too large\n2026-01-01 INFO all is well \x1b[2J")
    'too large\\n2026-01-01 INFO all is well \\x1b[2J'
    >>> shown("a" * 30, most=10)
    'aaaaaaaaa…'

    What is shown already stays as it is, so that no harm is done by asking twice. Anything that is not text is shown as
    what `str` makes of it; where that fails, as its type. The result can be encoded as UTF-8.

    What this does not do: letters of other alphabets that look like ours stay what they are, and a reader cannot tell
    an escaped line break from a backslash and an n that were sent as such.
    """
    if not isinstance(text, str):
        try:
            text = str(text)
        except Exception:
            text = f"<{type(text).__name__}>"
    pieces: list[str] = []
    room = most
    for character in text:
        piece = character if character.isprintable() else character.encode("unicode_escape").decode("ascii")
        if len(piece) > room:
            return "".join(pieces)[: most - 1] + "…"
        pieces.append(piece)
        room -= len(piece)
    return "".join(pieces)
