"""Compare all ranks of a job: which of them compiled the same code, and where the first one differs.

Logs are folded one after the other to small summaries of digests, so memory does not grow with the number of ranks
that agree. Where digests differ, the text of two logs is read again. Start in `job.py`.
"""
