"""A node as `fedbandits.deploy.flower.node` on a machine whose clock is ahead by the seconds that a file says.

The file is named like the agent's, with the suffix `.ahead`. Run as a program, with the same options.
"""

from __future__ import annotations

import datetime
import re
import sys
from pathlib import Path


def ahead_file(agent: Path) -> Path:
    """Where it is written how far the clock is ahead."""
    return agent.with_suffix(".ahead")


def main() -> None:
    """Run the node."""
    from flwr.supernode import node_auth_http_interceptor

    from fedbandits.deploy.flower import node, timing

    (agent,) = re.findall(r'agent="([^"]+)"', " ".join(sys.argv))

    def now() -> datetime.datetime:
        seconds = float(ahead_file(Path(agent)).read_text())
        return datetime.datetime.now(datetime.UTC) + datetime.timedelta(seconds=seconds)

    for module in (node_auth_http_interceptor, timing):
        vars(module)["now"] = now
    node.main()


if __name__ == "__main__":
    main()
