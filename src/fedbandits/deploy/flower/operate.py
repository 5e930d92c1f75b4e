"""What operators of a federation need beside Flower's own commands; `fedbandits federation` calls it."""

from __future__ import annotations

import json
import time
from dataclasses import replace
from pathlib import Path

from fedbandits.deploy.agent import Agent
from fedbandits.deploy.flower.book import BOOK, Book
from fedbandits.ledger import Ledger


def certificates(directory: Path, hosts: list[str]) -> None:
    """Make a certificate for a SuperLink, and an authority unless there is one: ca.crt goes to every node."""
    from fedbandits.deploy.flower.certificates import make_certificates

    make_certificates(directory, hosts)
    print(f"{directory / 'ca.crt'} for the nodes; server.crt and server.key for the SuperLink; keep ca.key apart")


def key(path: Path) -> None:
    """Make a node's key pair: the private key stays on the node, the public one is registered at the SuperLink."""
    from fedbandits.deploy.flower.certificates import make_key

    if path.exists():
        raise SystemExit(f"{path} exists; it is not overwritten")
    print(f"{make_key(path)} is to be registered")


def describe(agent: Path) -> None:
    """Print what the server has to know of its agents, `federation.json`: settings, and nothing that was observed."""
    with Agent.open(agent, warm=False) as opened:
        print(replace(opened.settings, identity=0, seed=0).text())


def project() -> None:
    """Print the directory that `flwr run` takes."""
    print(Path(__file__).parent / "project")


def status(directory: Path) -> None:
    """Print, as JSON, how the server in `directory` is getting on."""
    with Book(directory / BOOK) as book:
        ledger = Ledger()
        saved = book.parts()
        if saved:
            ledger.load(saved["ledger"])
        rejections = book.rejections()
        told = {
            "seconds since the last ring": _since(book.fact("rang_at")),
            "seconds since the last conversation": _since(book.fact("spoke_at")),
            "present": int(book.fact("present")),
            "known": sorted(book.bound()),
            "conversations": int(ledger.conversations),
            "messages": {"up": ledger.up.messages, "down": ledger.down.messages},
            "bytes": {"up": ledger.up.bytes, "down": ledger.down.bytes},
            "underway": None if (cut := book.cut()) is None else cut.conversation,
            "not yet delivered": {who: len(letters) for who, letters in book.undelivered().items()},
            "owe an answer": sorted(book.owed()),
            "rejected": len(rejections),
            "last rejected": None if not rejections else f"agent {rejections[-1].identity}: {rejections[-1].why}",
        }
    print(json.dumps(told, indent=2))


def release(directory: Path, identity: int) -> None:
    """Let another key speak for an agent from now on: after its node got a new one."""
    with Book(directory / BOOK) as book:
        print("released" if book.release(identity) else f"no key speaks for agent {identity}")


def _since(moment: float) -> float | None:
    return round(time.time() - moment, 1) if moment else None
