"""The linear family: all agents face y = <theta, x> + noise."""
