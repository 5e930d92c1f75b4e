"""What agents and servers learn with, for all families."""
