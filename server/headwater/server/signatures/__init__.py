"""Signatures of requests by access keys, as Paimon's DLF clients make them.

It knows HTTP and neither routes nor the database.
"""
