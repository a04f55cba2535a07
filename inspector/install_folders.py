"""The folders of ctrace's own code, so that no other module needs to count parent folders."""

import sys
from pathlib import Path

INSPECTOR = Path(sys.modules["ctrace.inspector"].__path__[0]).resolve()
PACKAGES = INSPECTOR.parent
"""The folder that contains `cli`, `inspector` and `reports`: the checkout, or the installed `ctrace`."""
HOME = PACKAGES if (PACKAGES / "ctrace").is_dir() else PACKAGES.parent
"""The `sys.path` entry that has `ctrace`; a checkout has ctrace's packages beside `ctrace/`, an install inside it."""
