"""Markov games: teams that plan together, and agents that do not."""
