"""Jobs on a table: planned once, done by the executor that is passed in, committed as one.

May import compaction, maintenance and the rooms below them.
"""
