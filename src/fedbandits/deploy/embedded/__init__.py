"""The agent that a product embeds: decisions, rewards and letters, each on record before it counts."""
