"""Kernels: agents act on exact processes, on dictionaries or on features."""

from __future__ import annotations

from conformance.families.linear import SIZES
from conformance.family import Family

FAMILY = Family(small={"cosine": SIZES})
