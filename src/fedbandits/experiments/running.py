"""From an experiment file to results."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import replace

from fedbandits.contract.catalogue import ConfigError
from fedbandits.contract.description import describe, plain
from fedbandits.experiments.files import NETWORK_NAME, Experiment, load_experiment
from fedbandits.findings.claims import Claim
from fedbandits.findings.ends import Ends
from fedbandits.findings.results import Results
from fedbandits.studies.study import Case, Study, run_study, seed_list
from fedbandits.studies.watching import Watcher


def run_experiment(
    experiment: Experiment | str | os.PathLike[str],
    seeds: int | Sequence[int] | None = None,
    jobs: int = 1,
    out: str | os.PathLike[str] | None = None,
    engine: str = "local",
    *,
    full: bool = False,
    horizon: int | None = None,
    known: Ends | None = None,
    watcher: Watcher | None = None,
) -> Results:
    """Run `experiment`, or what of it `out` does not hold yet, and judge its claims.

    `full` runs it at the size of its table [full]; `seeds` and `horizon` replace what the file says. A number of seeds
    counts from the file's first one on; a list is taken as it is. More seeds than before extend what `out` holds.
    What is `known` of it is not run again.

    Claims that ask for more seeds than the others get them where `seeds` does not say otherwise.
    """
    if not isinstance(experiment, Experiment):
        experiment = load_experiment(experiment)
    if full:
        experiment = experiment.enlarged()
    if horizon is not None:
        experiment = _with_horizon(experiment, horizon)
    study = Study(
        title=experiment.title,
        source=experiment.source,
        description=experiment.description,
        cases=experiment.cases if seeds is not None else _as_claimed(experiment),
        points=experiment.run.points,
        identity=_identity(experiment),
        sweep=experiment.columns,
        claims=[claim.model_dump(exclude_defaults=True) for claim in experiment.claims],
        published=[figure.model_dump() for figure in experiment.published],
    )
    if not isinstance(seeds, Sequence):
        count = experiment.run.seeds if seeds is None else seeds
        seeds = [experiment.run.first_seed + number for number in seed_list(count)]
    return run_study(study, seeds, jobs, engine=engine, out=out, known=known, watcher=watcher)


def _as_claimed(experiment: Experiment) -> list[Case]:
    """All cases, with the seeds that claims which speak of them ask for beyond those of all."""
    first, common = experiment.run.first_seed, experiment.run.seeds
    sought: dict[str, list[int]] = {}

    def chosen(case: Case, claim: Claim) -> list[int]:
        """The seeds of the kinds of instances that `claim` asks for; looked for once for all algorithms."""
        if claim.kinds is None or not claim.speaks_of(case.label, case.point):
            return []
        what = json.dumps(plain([describe(case.environment), case.horizon, claim.kinds.model_dump()]), sort_keys=True)
        if what not in sought:
            try:
                sought[what] = claim.kinds.chosen(case.environment, case.horizon, first)
            except ConfigError as error:
                raise ConfigError(f"claim {claim.text!r}: {error}") from None
        return sought[what]

    cases = []
    for case in experiment.cases:
        further = range(first + common, first + experiment.seeds_of(case.label, case.point))
        kinds = {seed for claim in experiment.claims for seed in chosen(case, claim)}
        own = sorted(kinds.difference(range(first, further.stop)))
        cases.append(replace(case, further=further, chosen=own))
    return cases


def _identity(experiment: Experiment) -> dict[str, object]:
    """What was run with all defaults filled in; swept parameters are named by the sweep instead."""
    first = experiment.cases[0]
    environment = describe(first.environment)
    network = {} if first.options.network is None else describe(first.options.network)
    if NETWORK_NAME in experiment.paths:
        network = {"name": "swept", **_common(experiment.cases)}
    attack = {} if first.options.attack is None else describe(first.options.attack)
    algorithms = {case.label: describe(case.algorithm) for case in experiment.cases}
    for path in experiment.paths:
        table, _, name = path.rpartition(".")
        if table == "environment":
            environment[name] = "swept"
        elif table == "network":
            network[name] = "swept"
        elif table == "attack":
            attack[name] = "swept"
        elif table != "run":
            algorithms[table.removeprefix("algorithms.")][name] = "swept"
    return {
        "environment": environment,
        **({"network": network} if network else {}),
        **({"attack": attack} if attack else {}),
        "algorithms": algorithms,
        "run": {
            "horizon": "swept" if "run.horizon" in experiment.paths else experiment.run.horizon,
            "points": experiment.run.points,
            "coverage": experiment.run.coverage,
            **({"theory": True} if experiment.run.theory else {}),
        },
        "sweep": experiment.sweep,
        **({"points": experiment.points} if experiment.points else {}),
    }


def _common(cases: Sequence[Case]) -> dict[str, object]:
    """The parameters of their networks on which all `cases` agree."""
    described = [describe(case.options.network) for case in cases]
    return {
        name: value
        for name, value in described[0].items()
        if all(other.get(name, ...) == value for other in described) and name != "name"
    }


def _with_horizon(experiment: Experiment, horizon: int) -> Experiment:
    if "run.horizon" in experiment.paths:
        raise ConfigError("horizon: this experiment sweeps over run.horizon; change it in a copy of the file instead")
    if horizon < 1:
        raise ConfigError(f"horizon: must be at least 1 (got {horizon})")
    content = experiment.model_dump()
    return Experiment.model_validate({**content, "run": {**content["run"], "horizon": horizon}})
