"""Partitions as objects of the catalog."""
