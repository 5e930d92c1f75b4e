"""Something rises or falls along a list or a sweep."""

from __future__ import annotations

from typing import Annotated, Literal

import numpy as np
import pandas as pd
from pydantic import Field, model_validator

from fedbandits.findings.claims.claim import BaseClaim
from fedbandits.findings.claims.pairing import along_column, means, paired
from fedbandits.findings.claims.verdict import Verdict, all_of
from fedbandits.findings.numbers import number


class Monotone(BaseClaim):
    """`metric` rises or falls from each member of `along` to the next: a list of algorithms, or a sweep column
    (then `of` names the algorithm). One-sided bounds of the paired differences, each with confidence 1 - 0.05/k
    for k steps. Holds if every step does, fails if any step fails.
    """

    kind: Literal["monotone"]
    metric: str
    direction: Literal["rises", "falls"]
    along: Annotated[list[str], Field(min_length=2)] | str
    of: str | None = None

    @model_validator(mode="after")
    def _names_the_algorithm(self) -> Monotone:
        if isinstance(self.along, str) != (self.of is not None):
            raise ValueError("`of` names the algorithm when `along` is a sweep column, and is left out otherwise")
        return self

    @property
    def labels(self) -> list[str]:
        """See `BaseClaim`."""
        return self.along if isinstance(self.along, list) else [str(self.of)]

    @property
    def columns(self) -> list[str]:
        """See `BaseClaim`."""
        return [*self.at, self.along] if isinstance(self.along, str) else list(self.at)

    def judge(self, frame: pd.DataFrame, final: pd.DataFrame) -> Verdict:
        """See `BaseClaim`."""
        if isinstance(self.along, list):
            names = self.along
            pairs = paired(self._by_seed(final, label, self.metric) for label in self.along)
        else:
            values, pairs = along_column(self._rows(final, str(self.of)), self.along, self.metric)
            names = [f"{self.along}={value}" for value in values]
        sign = 1 if self.direction == "falls" else -1
        steps = [self._interval(step, comparisons=len(names) - 1, sides=1) for step in np.diff(sign * pairs, axis=1).T]
        found = [step.below(0) for step in steps]
        levels = means(pairs)
        chain = ", ".join(f"{number(level)} ({name})" for name, level in zip(names, levels, strict=True))
        doubts = [
            f"from {names[at]} to {names[at + 1]} it {'does not' if finding == 'fails' else 'may not'}"
            for at, finding in enumerate(found)
            if finding != "holds"
        ]
        return self._says(
            all_of(found),
            "; ".join([f"{self.metric} {chain}", *doubts]),
            len(pairs),
            [step.seeds_to_decide(0) for step, finding in zip(steps, found, strict=True) if finding == "undecided"],
            levels=dict(zip(names, levels, strict=True)),
            steps=found,
        )
