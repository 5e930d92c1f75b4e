"""Mean rewards in the space of a kernel: every agent alone on exact processes, and what they can do in company."""
