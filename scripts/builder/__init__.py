"""Gets a wheel of Triton for a commit. Runs in asv's environments, so it is standard library only."""
