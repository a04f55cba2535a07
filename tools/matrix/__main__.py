"""`python tools/matrix`: finds this package and ctrace in the checkout, since it runs before anything is installed."""

import sys
from pathlib import Path

_TOOLS = Path(__file__).resolve().parents[1]
sys.path[:1] = [str(_TOOLS), str(_TOOLS.parent)]

from matrix.command import main  # noqa: E402

if __name__ == "__main__":
    sys.exit(main())
