"""The non-linear family: mean rewards are any differentiable model of arms and parameters."""
