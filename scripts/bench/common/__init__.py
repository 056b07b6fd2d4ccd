"""What the benchmarks in a browser have in common; no benchmark itself."""
