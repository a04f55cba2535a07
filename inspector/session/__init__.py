"""Build a Session from the events of a log: `build.py` calls the fold of each subject.

`crosschecks.py` compares sources, `log_end.py` finds where a log stops early, `session_cache.py` keeps the Session of a
large log, `summary.py` has the first sentence and the counts. Start in `build.py`.
"""
