"""The neural family: mean rewards are whatever a network can learn."""
