"""What a pipeline needs of a source: its position, its log, and its rows at a position."""
