"""From the events of a log to a Session: `build.py` calls every subject's fold.

`crosschecks.py` compares sources, `cut_off.py` finds where a log stops early, `summary.py` has the first sentence and
the counts. Start in `build.py`.
"""
