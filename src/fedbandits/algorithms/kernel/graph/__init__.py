"""Kernelised bandits without a server: agents, each with its own function, tell each other what they saw."""
