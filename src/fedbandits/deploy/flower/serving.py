"""The algorithm's server in memory: with streams of its own, and what of both is saved after each conversation."""

from __future__ import annotations

from collections.abc import Mapping

from fedbandits.contract.arrays import State
from fedbandits.contract.catalogue import ConfigError
from fedbandits.contract.server import Server
from fedbandits.contract.streams import Secret, Streams
from fedbandits.deploy.embedded.parts import names_within
from fedbandits.deploy.embedded.secret import OwnSecret, UndeclaredSecret
from fedbandits.deploy.settings import Settings

_SERVER, _STREAMS = "server", "streams"


class Serving:
    """The server of `settings.algorithm`: a new one, or the one of which `saved` are the parts.

    Noise that protects people derives from a key that is saved with the server, and from the name of the conversation
    (see `secret`): a conversation that is continued draws the same noise again, and no other does, since each server
    makes up names of its own when it is started. Books of version 0.1.0 hold no streams: theirs are as new.
    """

    def __init__(self, settings: Settings, saved: Mapping[str, State]) -> None:
        about = settings.algorithm.about
        self._secret = OwnSecret(needed_by=about.name) if about.private else None
        self._streams = settings.server_streams(self._secret or UndeclaredSecret(about.name))
        server = settings.algorithm.server(settings.problem, settings.agents, self._streams)
        if server is None:
            raise ConfigError(f"{about.name} has no server: its agents need no federation")
        self.server: Server = server
        for part, into in ((_STREAMS, self._streams), (_SERVER, server)):
            if part in saved:
                new = into.state()
                into.load(saved[part] | {name: new[name] for name in _streams_within(into) - saved[part].keys()})

    def begin(self, conversation: str) -> None:
        """A conversation begins, or goes on that was cut."""
        if self._secret is not None:
            self._secret.begin(conversation.encode())

    def parts(self) -> dict[str, State]:
        """What has to be saved, by name."""
        return {_SERVER: self.server.state(), _STREAMS: self._streams.state()}


def _streams_within(whole: Server | Streams) -> frozenset[str]:
    return names_within(whole, Streams) | names_within(whole, Secret)
