"""What may be believed of what nodes send, and what happens where that was too much."""
