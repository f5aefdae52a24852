"""Whole engines on the same data, each with a Spark of its own: Headwater, Delta Lake, Paimon."""
