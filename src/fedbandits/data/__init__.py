"""Public datasets: finding and downloading their files, reading their formats, features from text."""
