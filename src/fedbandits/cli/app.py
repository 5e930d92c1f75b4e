"""The application: its commands, and what happens when one of them fails."""

from __future__ import annotations

import re
import sys
import warnings
from collections.abc import Callable, Sequence
from typing import Annotated, Any

import typer
from rich.text import Text
from typer.core import TyperGroup

from fedbandits import __version__
from fedbandits.cli import agent, catalogue, compare, demo, federation, report, run
from fedbandits.cli.console import complain, note


class Commands(TyperGroup):
    """Turns errors a user can mend into one line and exit code 2, and warnings into notes."""

    def main(
        self,
        args: Sequence[str] | None = None,
        prog_name: str | None = None,
        complete_var: str | None = None,
        standalone_mode: bool = True,
        windows_expand_args: bool = True,
        **extra: Any,
    ) -> Any:
        """Run a command and exit with its code."""

        def command() -> Any:
            return super(Commands, self).main(args, prog_name, complete_var, False, windows_expand_args, **extra)

        if not standalone_mode:
            return command()
        with warnings.catch_warnings():
            warnings.showwarning = _as_note
            sys.exit(_guarded(command))


def _guarded(command: Callable[[], Any]) -> int:
    try:
        code = command()
    except Exception as error:
        # heavy to import, and only needed when something has gone wrong
        from fedbandits.contract.catalogue import ConfigError

        if isinstance(error, ConfigError):
            return complain(str(error), code=2)
        if hasattr(error, "format_message"):  # a usage error of typer's, whose classes depend on its version
            return complain(_usage(error), code=2)
        from fedbandits.deploy.errors import AgentError
        from fedbandits.studies.engines.failures import TaskError

        if isinstance(error, TaskError | AgentError):
            return complain(str(error), code=1)
        raise
    return code if isinstance(code, int) else 0


def _usage(error: Any) -> str:
    """What was wrong in the way a command was written, and what helps."""
    sentences = re.split(r"(?<=[.?]) +", error.format_message())
    message = " ".join(dict.fromkeys(sentences)).rstrip(".")  # click and typer both say what was perhaps meant
    context = getattr(error, "ctx", None)
    if type(error).__name__ == "MissingParameter" and context is not None and context.command.epilog:
        message += f". {Text.from_markup(context.command.epilog).plain}"
    command = "fedbandits" if context is None else context.command_path
    return f"{message}; `{command} --help` says what there is"


def _as_note(message: Warning | str, *_: Any, **__: Any) -> None:
    note(str(message))


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"fedbandits {__version__}")
        raise typer.Exit


app = typer.Typer(
    name="fedbandits",
    cls=Commands,
    add_completion=False,
    no_args_is_help=False,
    rich_markup_mode="rich",
    pretty_exceptions_show_locals=False,  # they hold tokens, rewards and features
    context_settings={"help_option_names": ["-h", "--help"]},
)


@app.callback(
    invoke_without_command=True, epilog="Example: [bold]fedbandits demo[/bold], then [bold]fedbandits list[/bold]."
)
def fedbandits(
    context: typer.Context,
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None:
    """Federated bandits: compare algorithms, run the publications' experiments, read the reports."""
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())


for module in (demo, catalogue, compare, run, report):
    app.command(name=module.NAME, epilog=module.EXAMPLE)(module.command)
for group in (agent, federation):
    app.add_typer(group.app, name=group.NAME)
