"""How a pipeline goes on: batches, plans, commits, and the state of its tables."""
