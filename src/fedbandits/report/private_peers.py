"""Why private agents may have less regret than the same agents without privacy.

Every explanation follows from the definition of the algorithm or was measured by changing one thing: 40 agents, 5
Bernoulli arms with uniform means, on an Erdős–Rényi graph (p = 0.2) where they talk, 1,000 steps, 20 seeds, schedule
parameter 1. The noise was removed by setting its scale to zero.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pandas as pd

from fedbandits.findings.claims import Interval
from fedbandits.findings.numbers import number
from fedbandits.report.remark import Remark

if TYPE_CHECKING:
    from fedbandits.findings.results import Results

_WHERE = "40 agents, 5 Bernoulli arms, 1,000 steps, 20 seeds"
_UCB1 = {"mean": "empirical", "exploration": 2.0}


@dataclass(frozen=True, slots=True)
class Peer:
    """What a private algorithm is without its noise, and why it may still have less regret."""

    name: str
    why: str
    given: Mapping[str, Any] = field(default_factory=dict)
    """The parameters of the private algorithm for which the explanation holds."""
    its: Mapping[str, Any] = field(default_factory=lambda: _UCB1)
    """Those of the peer."""


PEERS = {
    "private-fed-ucb": Peer(
        "fed-ucb1",
        "This is not what privacy is worth but what UCB1 spends on exploration. With a release after every pull the "
        "two are one algorithm but for the noise: its scale set to zero and nothing else changed, private agents had "
        f"the regret of fed-ucb1 ({_WHERE}: 1,359 and 1,358). With noise they had 471. They act on their own released "
        "means, and noise is drawn anew only when an arm is pulled again: an arm whose noise makes it look good is "
        "pulled again, one whose noise makes it look poor is left alone. In the end the released means of the poorer "
        "arms lay 0.35 below the clean ones, that of the best arm 0.02. To explore less pays because the widths of "
        "UCB1 are wider than such runs need: fed-ucb1 itself had 481 with exploration = 0.5 in place of 2. Where "
        "agents act on their own clean rewards and only what others tell is noisy (own = clean), regret was 1,973. "
        "Nothing is proved about any of this, and a good arm can be left alone in the same way.",
        {"own": "released"},
    ),
    "dp-ucb-int": Peer(
        "ucb1",
        "With a release after every pull the two are one algorithm but for the noise: its scale set to zero and "
        f"nothing else changed, private agents had the regret of ucb1 ({_WHERE}: 2,652 both). With noise they had "
        "more there, 2,977. In single cases they have less: an arm whose noise makes it look poor is left alone, which "
        "saves exploration if it is a poor one, and costs regret if it is the best.",
    ),
}
"""By the name of the private algorithm."""


def private_with_less_regret(results: Results) -> list[Remark]:
    """One for each kind of private algorithm that has less regret here than its peer without privacy."""
    described: Mapping[str, Mapping[str, Any]] = results.settings.get("algorithms", {})
    final = results.final()
    found = []
    for name, peer in PEERS.items():
        private = [label for label, one in described.items() if _is(one, name, peer.given)]
        plain = [label for label, one in described.items() if _is(one, peer.name, peer.its)]
        cases = [told for one in private for other in plain if (told := _less(results, final, one, other))]
        if cases:
            found.append(Remark(" ".join(cases), peer.why))
    return found


def _is(described: Mapping[str, Any], name: str, given: Mapping[str, Any]) -> bool:
    return described.get("name") == name and all(described.get(key, value) == value for key, value in given.items())


def _less(results: Results, final: pd.DataFrame, private: str, plain: str) -> str:
    """Where `private` has less regret than `plain` under the same seeds, in words; empty if nowhere."""
    own = final[final["algorithm"] == private].dropna(axis=1, how="all")
    other = final[final["algorithm"] == plain].dropna(axis=1, how="all")
    common = [column for column in results.sweep if column in own and column in other]
    both = own.merge(other[[*common, "seed", "regret"]], on=[*common, "seed"], suffixes=("", "_without"))
    if both.empty:
        return ""
    swept = [column for column in results.sweep if column in own and both[column].nunique() > 1]
    points = [rows for _, rows in both.groupby(swept, sort=False)] if swept else [both]
    differences = [Interval.over((rows["regret"] - rows["regret_without"]).to_numpy()) for rows in points]
    less = [at for at, difference in enumerate(differences) if difference.mean < 0]
    if not less:
        return ""
    # the point that speaks most clearly
    at = min(less, key=lambda at: (differences[at].high, differences[at].mean))
    where = ", ".join(f"{column}={points[at][column].iloc[0]}" for column in swept)
    place = f", at {len(less)} of {len(points)} points of the sweep, most clearly at {where}" if swept else ""
    own_mean, other_mean = (points[at][column].mean() for column in ("regret", "regret_without"))
    return (
        f"The private {private} has less regret than {plain}, which protects nobody{place}: "
        f"{number(own_mean)} against {number(other_mean)}, difference {differences[at]}."
    )
