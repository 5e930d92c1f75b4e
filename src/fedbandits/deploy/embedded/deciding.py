"""Decisions: taken by the algorithm or by chance, and written down with all that is needed to judge them later."""

from __future__ import annotations

import random
from dataclasses import replace

from fedbandits.deploy.embedded.decision import Decision, named
from fedbandits.deploy.embedded.episodes import Episodes
from fedbandits.deploy.embedded.exploring import choice
from fedbandits.deploy.embedded.inputs import Menu, NamesOfArms
from fedbandits.deploy.embedded.persons import check_named
from fedbandits.deploy.embedded.places import Places
from fedbandits.deploy.embedded.replica import Replica
from fedbandits.deploy.settings import Settings
from fedbandits.deploy.storage.journal import Journal


class Deciding:
    """Decides what is asked at one moment, `now`, within a transaction that writes to `journal`."""

    def __init__(
        self, journal: Journal, settings: Settings, replica: Replica, episodes: Episodes, now: float, rng: random.Random
    ) -> None:
        self._journal = journal
        self._settings = settings
        self._replica = replica
        self._episodes = episodes
        self._now = now
        self._rng = rng

    def decide(self, asked: Menu | NamesOfArms, who: str | None, episode: str | None = None) -> Decision:
        """Choose among what is shown; `who` has to be told where persons are protected, the `episode` where the
        algorithm plans.
        """
        if isinstance(asked, Menu):
            return self._decide(asked, who, episode)
        decision = self._decide(Places(self._journal, self._settings).menu(asked.names), who, episode)
        return replace(decision, index=asked.names.index(str(decision.arm)))

    def _decide(self, menu: Menu, who: str | None, episode: str | None) -> Decision:
        replica, shown, names = self._replica, menu.shown, menu.names
        where = self._episodes.standpoint(episode, who, shown)
        who, stage = (who, None) if where is None else (where.who, where.stage)
        if replica.protects_persons:
            check_named(who)
        chosen = choice(replica.decide(shown, stage), len(shown), self._settings.explore, self._rng)
        entry, tag, pick = replica.counts.entry, self._rng.getrandbits(63), chosen.pick
        name = None if names is None else names[pick]
        self._journal.decide(
            entry,
            self._now,
            tag,
            pick,
            name,
            shown,
            names=names,
            who=who,
            score=chosen.score,
            propensity=chosen.propensity,
            chosen_by=chosen.chosen_by,
        )
        if where is not None:
            self._episodes.follow(entry, where)
        arm = pick if name is None else name
        return Decision(named(entry, tag), arm, pick, chosen.score, chosen.propensity)
