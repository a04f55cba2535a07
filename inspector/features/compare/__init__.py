"""Two runs, or all ranks of a job, side by side."""
