"""Files that survive a crash, a full disk, a hostile author and two concurrent writers.

`writing.py` replaces a file whole or not at all, `lock.py` lets one process at a time change a file, `typed_json.py`
reads untrusted JSON into records, `disk_errors.py` explains system errors. Imports `errors` only.
"""
