"""Which tests are left to `make test-thorough`; see thorough.toml."""

from __future__ import annotations

import tomllib
from itertools import accumulate
from pathlib import Path

THOROUGH = Path(__file__).with_name("thorough.toml")
NAMED = frozenset(name for group in tomllib.loads(THOROUGH.read_text()).values() for name in group["tests"])


def is_thorough(test: str) -> bool:
    """Whether `test`, its function, or the class, file or directory that this is in, is named there."""
    file, *inner = test.partition("[")[0].split("::")
    around = [*accumulate(file.split("/"), "{}/{}".format), *accumulate([file, *inner], "{}::{}".format)]
    return test in NAMED or not NAMED.isdisjoint(around)
