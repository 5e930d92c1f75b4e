"""Everything that moves messages in a simulation: carriers, relays, flooding, faults."""
