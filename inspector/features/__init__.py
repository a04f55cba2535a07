"""What ctrace does beyond showing a run, each with its side of the child process in `child/`."""
