"""Speed and memory: against a straightforward implementation, peers, and the machine's limit."""
