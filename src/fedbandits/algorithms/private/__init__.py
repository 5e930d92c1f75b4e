"""The private family: linear rewards, and sums that leave an agent within a budget of differential privacy."""
