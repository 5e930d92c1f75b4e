"""Decisions in sequence: agents in episodes, who plan by least-squares value iteration."""
