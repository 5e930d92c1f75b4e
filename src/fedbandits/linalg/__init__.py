"""Compiled kernels for populations of regressions, and the models that rest on them."""
