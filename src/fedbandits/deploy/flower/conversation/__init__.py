"""The server at work: rings, letters and answers over Flower, one conversation at a time."""
