"""The buckets that new rows go to, for each way in which a table has buckets.

May import what write may, and is imported by the rest of write.
"""
