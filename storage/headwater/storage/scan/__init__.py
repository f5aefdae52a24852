"""Planning a read: which files a snapshot or a stream of snapshots holds, and which can be skipped.

May import manifest, snapshot, predicate, casts.
"""
