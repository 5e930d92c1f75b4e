"""The generalized linear family: clicks and counts, E[y | x] = mu(<theta, x>)."""
