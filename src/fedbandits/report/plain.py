"""Everything a report says, as plain values for programs."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

from fedbandits.report.budgets import budgets_of
from fedbandits.report.command import command_of
from fedbandits.report.remarks import remarks
from fedbandits.report.summary import check_finished, in_short, summarise

if TYPE_CHECKING:
    from fedbandits.findings.results import Results


def plain_report(results: Results) -> dict[str, Any]:
    """`results` as strings, numbers, lists and mappings; what is not known is None or NaN.

    `summary` has a row per algorithm and sweep point, means `X` and standard errors `X_se`; `claims` their verdicts,
    the figures in words (`measured`) and as numbers (`details`); `published` the figures of the publication (`value`)
    beside ours (`mean`, `error`, `seeds`); `budgets` what algorithms with a budget have spent of it and what that
    means, epsilon being "infinite" where it is; `remarks` what the page explains beside its pictures; `missing` how
    many runs are still to be done.
    """
    check_finished(results)
    return {
        "title": results.title,
        "source": results.source,
        "description": results.description.strip(),
        "command": command_of(results),
        "settings": {name: value for name, value in results.settings.items() if name != "command"},
        "sweep": list(results.sweep),
        "missing": results.missing,
        "claims": [dataclasses.asdict(claim) for claim in results.claims],
        "published": [dataclasses.asdict(figure) for figure in results.published],
        "budgets": {title: budget.plain() for title, budget in budgets_of(results).items()},
        "in_short": in_short(results),
        "remarks": [dataclasses.asdict(remark) for remark in remarks(results)],
        "summary": summarise(results).to_dict("records"),
    }
