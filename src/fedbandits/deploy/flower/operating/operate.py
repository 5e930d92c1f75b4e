"""What operators of a federation need beside Flower's own commands; `fedbandits federation` calls it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from fedbandits.deploy.embedded.agent import Agent
from fedbandits.deploy.flower.book.books import book_in
from fedbandits.deploy.flower.operating.promised import promised
from fedbandits.deploy.flower.operating.server_status import server_status


def certificates(directory: Path, hosts: list[str]) -> None:
    """Make a certificate for a SuperLink, and an authority unless there is one: ca.crt goes to every node."""
    from fedbandits.deploy.flower.machine.certificates import make_certificates

    make_certificates(directory, hosts)
    print(f"{directory / 'ca.crt'} for the nodes; server.crt and server.key for the SuperLink; keep ca.key apart")


def key(path: Path) -> None:
    """Make a node's key pair: the private key stays on the node, the public one is registered at the SuperLink."""
    from fedbandits.deploy.flower.machine.certificates import make_key

    if path.exists():
        raise SystemExit(f"{path} exists; it is not overwritten")
    print(f"{make_key(path)} is to be registered")


def describe(agent: Path) -> None:
    """Print what the server has to know of its agents, `federation.json`: settings, and nothing that was observed."""
    with Agent.open(agent, warm=False) as opened:
        print(replace(opened.settings, identity=0, seed=0).text())


def project() -> None:
    """Print the directory that `flwr run` takes."""
    print(Path(__file__).parent.parent / "project")


def status(directory: Path) -> dict[str, Any]:
    """How the server in `directory` is getting on."""
    with book_in(directory) as book:
        found = server_status(book)
    budget = promised(directory)
    return found if budget is None else found | {"budget_of_each_agent": budget.promise()}


def release(directory: Path, identity: int) -> None:
    """Let another key speak for an agent from now on: after its node got a new one."""
    with book_in(directory) as book:
        print("released" if book.release(identity) else f"no key speaks for agent {identity}")
