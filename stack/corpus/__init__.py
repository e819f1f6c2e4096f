"""Real models with known answers, fetched by package name: for the demo, the tests and the benchmarks."""
