"""Continue saved runs in a fresh process: `python -m conformance.resume DIRECTORY NAME...`."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

from conformance.subjects import subject


def main(directory: Path, names: list[str]) -> None:
    """Load each `NAME.before.npz`, run to the horizon and leave `NAME.after.npz`."""
    for name in names:
        run = subject(name).simulation()
        with np.load(directory / f"{name}.before.npz", allow_pickle=False) as saved:
            run.load(dict(saved))
        run.run()
        np.savez(directory / f"{name}.after.npz", **run.state())


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])
