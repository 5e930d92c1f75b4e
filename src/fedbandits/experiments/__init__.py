"""Experiments as declarative files: what is run, where it comes from, and what it is claimed to show."""

from fedbandits.experiments.files import Experiment, load_experiment, shipped_experiments
from fedbandits.experiments.running import run_experiment

__all__ = ["Experiment", "load_experiment", "run_experiment", "shipped_experiments"]
