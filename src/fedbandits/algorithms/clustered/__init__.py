"""The clustered family: agents differ, and find out who may learn with whom."""
