"""Sinks: where the events of the change feed are delivered, as CloudEvents.

May import the server's top-level modules but not its routes.
"""
