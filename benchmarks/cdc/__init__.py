"""Change data capture beside the libraries that read the same log."""
