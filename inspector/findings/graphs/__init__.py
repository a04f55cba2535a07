"""Graphs that torch printed, parsed into data. Only views that show graphs import this package. Start in
`graph_view.py`.
"""
