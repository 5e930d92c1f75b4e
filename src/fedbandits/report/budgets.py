"""The section on privacy: what each algorithm had promised, what it has spent, and what that means."""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING

from fedbandits.contract.budget import Budget, budget_in
from fedbandits.report.portraits import title_of
from fedbandits.report.readable import exact, human
from fedbandits.report.section import Section, render

if TYPE_CHECKING:
    from fedbandits.findings.results import Results


def budgets_of(results: Results) -> dict[str, Budget]:
    """By algorithm and sweep point the budget of the client that has spent most of it, over all seeds."""
    found: dict[str, Budget] = {}
    for title, group in groupby(results.portraits, key=title_of):
        held = [budget for portrait in group if (budget := budget_in(portrait.arrays)) is not None]
        if held:
            found[title] = max(held, key=lambda budget: (budget.strictly, budget.spent))
    return found


def budgets(results: Results) -> Section | None:
    """A row for each budget."""
    found = budgets_of(results)
    if not found:
        return None
    return Section("privacy", "Privacy", render("budgets.html", budgets=found, human=human, exact=exact))
