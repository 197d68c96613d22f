"""Applies the hooks that CHAOS_HOOKS names: Python imports this module first if its folder is on the path."""

from __future__ import annotations

import os
import sys

from tests.chaos.broken.breaks import BREAKS
from tests.chaos.hooks import HOOKS
from tests.support.breaking import Breaking

for name in os.environ["CHAOS_HOOKS"].split(","):
    sys.meta_path.insert(0, Breaking(BREAKS[name] if name in BREAKS else HOOKS[name]))
