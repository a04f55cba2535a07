"""Edits that make a program smaller: each module yields those that it knows for a tree, the most promising first.

An edit addresses nodes by their number in `ast.walk`, because it is applied to a copy of the tree.
"""
