"""SQL scripts: ``BEGIN … END`` with variables, loops, handlers and cursors.

`parser` makes the tree, `runner` runs it, and hands each statement to the one who runs statements
that stand alone. Local variables are variables of Spark's session for as long as they are needed
(`variables`).
"""

from headwater.spark.sql.script.parser import begins_script
from headwater.spark.sql.script.runner import run_script

__all__ = ["begins_script", "run_script"]
