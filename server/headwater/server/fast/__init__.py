"""The fast lane: frequent requests answered before the framework sees them.

May import the server's top-level modules.
"""
