"""In the place of scripts.time_commits, on a machine without a GPU: nothing is timed."""
