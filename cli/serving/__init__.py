"""Serve the runs of a folder to a browser. Start in `report_server.py`.

`connections.py` bounds what clients may hold, `serving_page.py` writes one page in a process of its own.
"""
