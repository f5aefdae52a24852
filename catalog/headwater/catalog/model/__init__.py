"""What a catalog holds, as values, and the protocols by which it is asked.

May import headwater.storage.
"""
