"""Tags: snapshots with a name."""
