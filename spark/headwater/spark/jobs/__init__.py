"""The executor that runs jobs on tables, `headwater.storage.jobs`, in Spark's tasks.

May import spark's errors.
"""
