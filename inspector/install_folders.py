"""The location of ctrace's own code, so that no other module needs to count parent folders."""

import sys
from pathlib import Path

INSPECTOR = Path(sys.modules["ctrace.inspector"].__path__[0]).resolve()
CAPTURE = INSPECTOR / "capture"
PACKAGES = INSPECTOR.parent
"""The folder that contains `cli`, `inspector` and `reports`: the checkout, or the installed `ctrace`."""
HOME = PACKAGES if (PACKAGES / "ctrace").is_dir() else PACKAGES.parent
"""The `sys.path` entry to import `ctrace` from: a checkout has the packages beside `ctrace/`, an install inside it."""
