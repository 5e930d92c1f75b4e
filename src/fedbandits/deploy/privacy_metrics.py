"""A budget of privacy as metrics that an agent and the federation's server have in common: what was promised."""

from __future__ import annotations

from collections.abc import Iterator

from prometheus_client.core import GaugeMetricFamily, InfoMetricFamily, Metric

from fedbandits.contract.budget import Budget


def privacy_metrics(prefix: str, budget: Budget) -> Iterator[Metric]:
    """The budget, how many releases it allows, and what it means: a number says little without its adjacency."""
    yield GaugeMetricFamily(f"{prefix}_privacy_budget_epsilon", "Epsilon that each agent may spend.", budget.epsilon)
    yield GaugeMetricFamily(f"{prefix}_privacy_budget_delta", "Delta at which epsilon holds.", budget.delta)
    yield GaugeMetricFamily(
        f"{prefix}_privacy_allowed_releases", "Noisy sums that each agent may release.", budget.allowed
    )
    meaning = {
        "unit": budget.unit,
        "adjacency": budget.adjacency,
        "definition": budget.definition,
        "mechanism": budget.mechanism,
    }
    yield InfoMetricFamily(f"{prefix}_privacy", "What the budget protects, and how.", meaning)
