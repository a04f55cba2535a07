"""Build a Session from the events of a log: `build.py` calls the fold of each subject.

`crosschecks.py` compares sources, `build.py` finds where a log stops early, `summary.py` has the first sentence and
the counts. Start in `build.py`.
"""
