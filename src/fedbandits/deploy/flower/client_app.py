"""The ClientApp: opens the agent's file and answers for it.

Node configuration: `agent`, the path of the agent's file, and `identity`, which has to be the agent's own.
"""

from __future__ import annotations

from functools import cache

from flwr.app import Context, Message
from flwr.clientapp import ClientApp

from fedbandits.deploy.embedded.agent import Agent
from fedbandits.deploy.flower.conversation.desk import Desk
from fedbandits.deploy.flower.messages import answering, clock_told, presenting, read_letter

app = ClientApp()


@app.query("ring")
def ring(message: Message, context: Context) -> Message:
    """Say who this is, and whether it calls."""
    desk = _desk(context)
    if (ahead := clock_told(message)) is not None:
        desk.compare_clocks(ahead)
    return presenting(message, desk.identity, desk.fingerprint, desk.ring())


@app.query("ask")
def ask(message: Message, context: Context) -> Message:
    """Hand the server's letter to the agent, and its answer back."""
    return answering(message, _desk(context).answer(read_letter(message)))


def _desk(context: Context) -> Desk:
    path, identity = context.node_config.get("agent"), context.node_config.get("identity")
    if not isinstance(path, str) or not isinstance(identity, int):
        raise ValueError("the node needs --node-config 'agent=\"/path/to/agent.db\" identity=0'")
    return desk_at(path, identity)


@cache
def desk_at(path: str, identity: int) -> Desk:
    """The desk of the agent at `path`, opened once in a process."""
    return Desk(Agent.open(path, warm=False), identity)
