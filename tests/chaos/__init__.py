"""Chaos: a cluster that commits while its parts are killed, frozen, cut off and starved."""
