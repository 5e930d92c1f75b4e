"""Many simulations: tasks, engines, comparisons, and where results are kept."""
