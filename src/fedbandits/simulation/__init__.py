"""The round loop and what a run leaves behind."""
