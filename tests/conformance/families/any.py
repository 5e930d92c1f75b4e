"""Algorithms that are at home anywhere."""

from conformance.family import Family

FAMILY = Family(small={})
