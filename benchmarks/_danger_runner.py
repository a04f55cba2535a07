"""Run `ctrace explain` of one checkout for many files, in forks of one process that has imported torch.

Reads lines `FILE WORD...`, separated by tabs, and answers each with a line of JSON: the exit code, and what the
command wrote. usage: _danger_runner.py CHECKOUT
"""

import json
import os
import sys
from pathlib import Path


def main() -> None:
    root = Path(sys.argv[1]).resolve()
    sys.path.insert(0, str(root))
    os.chdir(root)
    from tests.integration.conftest import Command
    from tests.support.warm import WarmServer

    server = WarmServer()
    try:
        for line in sys.stdin:
            file, *words = line.rstrip("\n").split("\t")
            done = Command(Path(file).parent, server)("explain", Path(file).name, "--json", *words, timeout=600)
            print(json.dumps([done.code, done.out, done.err]), flush=True)
    finally:
        server.close()


if __name__ == "__main__":
    main()
