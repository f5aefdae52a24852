"""The `headwater` command."""

import sys

from headwater.storage.process_memory import keep_released_memory

if sys.argv[1:2] == ["cdc"]:
    # Before the modules of commands load Arrow.
    keep_released_memory()
