"""`fedbandits agent log`, `import`, `retire` and `migrate`: what an agent has on record, and what it is about."""

from __future__ import annotations

import csv
import json
import sys
from pathlib import Path
from typing import Annotated

import typer

from fedbandits.cli.options import AddFeature, AgentFile, DropFeature, NameFeatures


def log(
    db: AgentFile,
    as_csv: Annotated[bool, typer.Option("--csv", help="A table with a line of names.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object in each line.")] = False,
    shown: Annotated[
        bool, typer.Option("--shown", help="Also the arms of each decision, as far as they are kept (keep_shown).")
    ] = False,
) -> None:
    """Print every decision on record: whom it was about, the arm, its score, its propensity, its reward.

    This is what evaluation needs: rewards divided by propensities estimate what another rule would have earned.
    """
    from fedbandits.deploy.embedded.agent import Agent
    from fedbandits.deploy.embedded.logged import COLUMNS

    if as_csv and as_json:
        raise typer.BadParameter("--csv and --json exclude each other")
    columns = COLUMNS + (("names", "shown") if shown else ())
    with Agent.open(db, warm=False) as opened:
        lines = (line.plain(shown=shown) for line in opened.log(shown=shown))
        if as_json:
            for line in lines:
                sys.stdout.write(json.dumps(line, ensure_ascii=False) + "\n")
            return
        writer = csv.writer(sys.stdout, lineterminator="\n")
        writer.writerow(columns)
        for line in lines:
            writer.writerow([json.dumps(item) if isinstance(item, list) else item for item in line.values()])


def import_(
    db: AgentFile,
    file: Annotated[
        Path, typer.Argument(metavar="LOG.csv", help="Columns: features, reward; arm, who, at, propensity.")
    ],
) -> None:
    """Let an agent learn from decisions that were taken before there was one. All lines are taken in, or none."""
    from fedbandits.contract.catalogue import ConfigError
    from fedbandits.deploy.embedded.agent import Agent

    try:
        content = file.read_bytes()
    except OSError as error:
        raise ConfigError(f"{file}: cannot be read ({error.strerror})") from None
    with Agent.open(db, warm=False) as opened:
        print(f"{opened.import_log(content)} observations imported")


def retire(
    db: AgentFile,
    name: Annotated[str, typer.Argument(help="The arm.")],
    drop: Annotated[bool, typer.Option("--drop", help="Drop what was learned of it: its place is free then.")] = False,
) -> None:
    """Let an arm that is known by its name alone be shown no more."""
    from fedbandits.deploy.embedded.agent import Agent

    with Agent.open(db, warm=False) as opened:
        opened.retire(name, drop=drop)


def migrate(
    db: Annotated[Path, typer.Argument(metavar="DB", help="The agent's file; stop whoever uses it.")],
    add: AddFeature = None,
    drop: DropFeature = None,
    names: NameFeatures = None,
    copy: Annotated[
        Path | None,
        typer.Option("--copy", help="Where the file is kept as it was; DB.before if not given.", show_default=False),
    ] = None,
    assume_accepted: Annotated[
        bool, typer.Option("--assume-accepted", help="What was handed over without an answer yet is taken in.")
    ] = False,
) -> None:
    """Change the features of an agent's arms. What it has learned of the others stays.

    The agents of a federation change theirs together, and so does their server: `fedbandits federation migrate`.
    """
    from fedbandits.cli.console import note
    from fedbandits.deploy.migrating import Change, migrate

    change = Change(None if names is None else tuple(names.split(",")), add, drop)
    copy = db.with_name(f"{db.name}.before") if copy is None else copy
    done = migrate(db, change, copy, assume_accepted=assume_accepted)
    print(f"features: {', '.join(done.features)}")
    note(f"{done.copy} is the file as it was")
    if done.moved is not None and done.moved > 1e-6:
        note(f"scores moved by up to {done.moved:.1%}: widths of this algorithm depend on the number of features")
