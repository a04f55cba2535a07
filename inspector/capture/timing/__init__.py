"""Time calls: a block between two readings of the clock, and rounds in which two sides take turns."""
