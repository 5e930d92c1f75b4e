"""The command line. Commands import what they need when they run, so that `--help` answers at once."""

from fedbandits.cli.app import app

__all__ = ["app"]
