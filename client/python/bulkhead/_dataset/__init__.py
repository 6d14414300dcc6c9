"""A user's own dataset in workers: how it gets there, and how its values come back."""

from __future__ import annotations

import sys

from .worker import bulkhead_leaves

# What is pickled names it as workers import it.
sys.modules.setdefault("bulkhead_leaves", bulkhead_leaves)
