"""The planning family: agents in episodes act on a regression for every stage."""

from __future__ import annotations

import math

from conformance.family import Family

SIZES = {"clients": 6, "length": 4}
_NEW_NOISE = "noise is drawn for every release, so that two of them carry more than one"
_RELEASED = "what was released stays released: it is sent again as it is, and no longer held"
_ASKED = "every answer has noise of its own, and costs"
FAMILY = Family(
    small={
        "linear-mdp": SIZES | {"states": 7, "dim": 5, "arms": 4},
        "agent-mdp": SIZES | {"states": 7, "dim": 5, "arms": 4, "kinds": 2},
        "riverswim": SIZES,
        "deep-sea": SIZES,
        "random-mdp": SIZES | {"states": 5},
        "team-mdp": SIZES | {"states": 2},
        "grid-explore": SIZES | {"size": 3, "visibility": "partial"},
    },
    talkative={
        "fedlsvi-dense": {"threshold": 0.5, "width": 0.5},
        "fedlsvi-heterogeneous": {"threshold": 0.5, "width": 0.5},
        "central-lsvi": {"width": 0.5},
        "fedlsvi-rare": {"threshold": 1.5, "width": 0.5},
        "private-fedlsvi": {"first": 8, "last": 0.6, "uploads": 3},
        "mg-lsvi": {"threshold": 1.2, "width": 0.5},
        "dqn-independent": {"filters": 2, "kernel": 2, "hidden": 4, "memory": 20, "batch": 4, "every": 2, "renew": 3},
    },
    silent={
        name: {"threshold": math.inf} for name in ("fedlsvi-dense", "fedlsvi-heterogeneous", "fedlsvi-rare", "mg-lsvi")
    },
    confident=({"width": "theory"}, {"scale": 0.01}, {"width": 0.3}),
    harsh={"ridge": 1e-5},
    excused={"private-fedlsvi": {"additive": _NEW_NOISE, "never asked": _RELEASED, "adds": _ASKED}},
)
