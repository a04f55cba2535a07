"""All ranks of a job as one: which of them compiled the same, and where the first one parts from the others.

Each log is folded to a small summary of digests, one after the other, so memory does not grow with the number of ranks
that agree. Only where digests differ is the text of two logs read again. Start in `job.py`.
"""
