"""Values that a catalog holds, and the protocols of its parts.

May import headwater.storage.
"""
