"""The measuring half: attention's backward pass, compiled by the Triton of the environment it runs in."""
