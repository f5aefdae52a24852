"""Headwater's own API beside Paimon's, under ``/management/v1``: a module for each noun."""
