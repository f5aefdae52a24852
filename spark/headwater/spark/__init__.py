"""The Spark face of a catalog."""
