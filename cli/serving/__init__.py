"""Serve the runs of a folder to a browser. Start in `server.py`.

`connections.py` bounds what clients may hold, `page.py` writes one page in a process of its own.
"""
