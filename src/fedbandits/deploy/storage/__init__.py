"""The files of a deployment: their formats, what is on record in an agent's, and how it is kept whole."""
