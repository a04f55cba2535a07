"""Files that survive a crash, a full disk, a hostile author and two writers at once.

`writing.py` replaces a file whole or not at all, `lock.py` lets one process change it, `typed_json.py` reads JSON that
anybody may have written into dataclasses, `disk_errors.py` words what the system refuses. Imports `errors` only.
"""
