"""Where ctrace's own code lies, so that no module has to count the folders above itself."""

import sys
from pathlib import Path

INSPECTOR = Path(sys.modules["ctrace.inspector"].__path__[0]).resolve()
CAPTURE = INSPECTOR / "capture"
PACKAGES = INSPECTOR.parent
"""What holds `cli`, `inspector` and `reports`: the checkout, or the installed `ctrace`."""
HOME = PACKAGES if (PACKAGES / "ctrace").is_dir() else PACKAGES.parent
"""What Python must know to import `ctrace`: in a checkout the packages lie beside `ctrace/`, installed inside it."""
