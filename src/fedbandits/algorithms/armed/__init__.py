"""K arms with unknown means, the same for all agents: algorithms that talk on a graph, and their baselines."""
