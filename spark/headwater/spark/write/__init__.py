"""Writing from Spark's tasks, committed once on the driver.

May import spark's types and options.
"""
