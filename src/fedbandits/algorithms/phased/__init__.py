"""Phased elimination on fixed sets of arms."""
