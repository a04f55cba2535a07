"""Observe what calls of a target do in eager or compiled: the evidence that a repair changes nothing."""
