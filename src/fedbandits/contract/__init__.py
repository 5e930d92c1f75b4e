"""What everybody agrees on: arrays, messages, the wire, populations, servers, problems and worlds."""
