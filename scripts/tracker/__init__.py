"""The judging half: reads asv's result files and the evidence store; never imports Triton or torch."""
