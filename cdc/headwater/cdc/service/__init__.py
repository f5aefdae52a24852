"""Pipelines as programs and operators use them."""
