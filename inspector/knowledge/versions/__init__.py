"""Releases of torch that ctrace supports, what differs between them, and which one is installed.

`releases.py` lists the releases with the Triton and the Pythons of each, `version_differences.py` what torch does
differently from one release to the next, `installed.py` looks at this environment.
"""
