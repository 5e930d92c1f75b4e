"""What models cost: `python -m benchmarks.models [--json FILE] [--quick]`.

Processor time of a decision, learning and talking included, and scalars per agent, for every algorithm of the shipped
experiments `which-model-*`, five agents, at their horizon. One thread; compilation is not timed. Experiments whose data
are not there are left out.
"""

from __future__ import annotations

import time
from typing import Any

from rich.console import Console
from rich.table import Table

import fedbandits as fb
from benchmarks.command import keep, parser
from benchmarks.warming import warm_up
from fedbandits.contract.errors import ConfigError
from fedbandits.experiments import load_experiment, shipped_experiments
from fedbandits.studies.study import Case

AGENTS = 5


def cost(case: Case, quick: bool) -> tuple[float, float]:
    """Microseconds of processor time per decision, and scalars per agent."""
    warm_up(case.algorithm, case.environment, 20)
    horizon = case.horizon // 10 if quick else case.horizon
    began = time.process_time()
    trace = fb.simulate(case.algorithm, case.environment, horizon)
    return 1e6 * (time.process_time() - began) / int(trace.decisions[-1]), float(trace.scalars[-1]) / AGENTS


def main() -> None:
    """Print a row for every model and every experiment."""
    options = parser(__doc__, quick="a tenth of the turns").parse_args()
    entries: list[dict[str, Any]] = []
    for name in shipped_experiments():
        if not name.startswith("which-model"):
            continue
        for case in load_experiment(name).cases:
            if case.point["clients"] != AGENTS:
                continue
            try:
                microseconds, scalars = cost(case, options.quick)
            except ConfigError as error:
                Console(stderr=True).print(f"{name}: {error}")
                break
            entries.append({"experiment": name, "model": case.label, "microseconds": microseconds, "scalars": scalars})
    table = Table("experiment", "model", "µs per decision", "scalars per agent")
    for one in entries:
        table.add_row(one["experiment"], one["model"], f"{one['microseconds']:.0f}", f"{one['scalars']:,.0f}")
    Console().print(table)
    keep(entries, options.json)


if __name__ == "__main__":
    main()
