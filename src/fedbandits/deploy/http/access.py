"""Who may ask: the token, and where the service may listen without one."""

from __future__ import annotations

import hmac
import ipaddress
import os
import re
import socket
from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

from fedbandits.contract.errors import ConfigError
from fedbandits.deploy.storage.files import open_to_everybody

TOKEN_VARIABLE = "FEDBANDITS_AGENT_TOKEN"
_SHORTEST = 20
_TOKEN = re.compile(r"[A-Za-z0-9._~+/-]+=*")
"""What a bearer token may be made of (RFC 6750)."""
_MAKE_ONE = """make one with: python3 -c "import secrets; print(secrets.token_urlsafe(32))\""""


class Token:
    """A secret that is compared and never shown; only its digest is kept."""

    def __init__(self, secret: str) -> None:
        self._digest = _digest(secret.encode("ascii"))

    def admits(self, authorization: bytes) -> bool:
        """Whether the value of an Authorization header is this token; takes as long for any wrong one."""
        scheme, _, credentials = authorization.strip().partition(b" ")
        # digests are equally long, so that the comparison does not tell the token's length either
        return hmac.compare_digest(_digest(credentials.strip()), self._digest) and scheme.lower() == b"bearer"


def find_token(file: Path | None, environment: Mapping[str, str] = os.environ) -> Token | None:
    """The token in `file`, else the one in the environment variable; never on a command line, which others can list."""
    if file is None:
        if not (secret := environment.get(TOKEN_VARIABLE)):
            return None
        where = TOKEN_VARIABLE
    else:
        where = f"--token-file {file}"
        try:
            if open_to_everybody(file):
                raise ConfigError(f"{where}: every user of this machine can read it; close it with: chmod 600 {file}")
            secret = file.read_text(encoding="ascii")
        except (OSError, UnicodeDecodeError) as error:
            reason = error.strerror if isinstance(error, OSError) else "it is not ASCII text"
            raise ConfigError(f"{where}: the token cannot be read ({reason})") from None
    secret = secret.strip()
    if len(secret) < _SHORTEST or not _TOKEN.fullmatch(secret):
        raise ConfigError(
            f"{where}: a token has at least {_SHORTEST} of the characters A-Z a-z 0-9 - . _ ~ + / and = at its end; "
            f"{_MAKE_ONE}"
        )
    return Token(secret)


@dataclass(frozen=True, slots=True)
class Address:
    """Where to listen: an address of this machine, resolved."""

    family: socket.AddressFamily
    host: str
    port: int

    @property
    def is_loopback(self) -> bool:
        """Whether this machine alone can reach it."""
        return ipaddress.ip_address(self.host.partition("%")[0]).is_loopback

    def url(self, port: int) -> str:
        """What to type."""
        return f"http://[{self.host}]:{port}" if self.family == socket.AF_INET6 else f"http://{self.host}:{port}"


def resolve(host: str, port: int) -> Address:
    """The address that `host` stands for; what is checked is what is listened on."""
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except OSError as error:
        raise ConfigError(f"--host {host}: not an address of this machine ({error.strerror})") from None
    family, _, _, _, address = found[0]
    return Address(family, str(address[0]), port)


def check_exposure(address: Address, token: Token | None, *, no_token: bool) -> None:
    """Refuse to listen without a token, unless `no_token` asks for it and nobody else can reach `address`.

    Loopback alone is no protection: every user and every program of a machine can reach it. So that it is given up
    knowingly, it has to be asked for.
    """
    if token is not None:
        if no_token:
            raise ConfigError("--no-token: a token is configured; leave out one of them")
    elif not address.is_loopback:
        raise ConfigError(
            f"--host {address.host} can be reached from other machines: set {TOKEN_VARIABLE} or --token-file; "
            f"{_MAKE_ONE}"
        )
    elif not no_token:
        raise ConfigError(
            f"a token is missing: set {TOKEN_VARIABLE} or --token-file, or accept with --no-token that every user of "
            f"this machine can use the agent; {_MAKE_ONE}"
        )


def names_loopback(host: str) -> bool:
    """Whether the Host header of a request means this machine itself.

    A browser that was tricked into resolving a stranger's name to 127.0.0.1 still sends the stranger's name.
    """
    name = host.rpartition(":")[0] if re.search(r":[0-9]*$", host) and not host.endswith("]") else host
    name = name.removeprefix("[").removesuffix("]").lower()
    if name == "localhost":
        return True
    try:
        return ipaddress.ip_address(name).is_loopback
    except ValueError:
        return False


def _digest(secret: bytes) -> bytes:
    return sha256(secret).digest()
