"""From the events of a whole log to one Session: `build.py` calls every subject's fold.

`crosschecks.py` compares what several sources say, `cut_off.py` finds where a log stops early, `summary.py` has the
verdict and the counts. Start in `build.py`.
"""
