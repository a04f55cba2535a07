"""Repairs of settings, one file each: the setting, and when it may help."""

import importlib
import pkgutil
from functools import cache

from ctrace.inspector.features.fix.repairs.repair_model import ConfigurationRepair


@cache
def all_settings() -> tuple[ConfigurationRepair, ...]:
    """Return the repair of each module of this folder, by name; modules that start with `_` are helpers."""
    names = sorted(module.name for module in pkgutil.iter_modules(__path__) if not module.name.startswith("_"))
    return tuple(importlib.import_module(f"{__name__}.{name}").REPAIR for name in names)
