"""Markov decision processes: what is chosen moves the state."""
