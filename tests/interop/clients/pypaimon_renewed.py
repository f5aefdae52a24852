"""A pypaimon client that goes on while the file with its key is replaced: options in, names out.

It lists the databases once for each line that it reads, so that the test replaces the file between.
"""

from __future__ import annotations

import json
import sys

from pypaimon.api.rest_api import RESTApi
from pypaimon.api.rest_exception import RESTException


def main() -> None:
    api = RESTApi(json.loads(sys.argv[1]))
    for _ in sys.stdin:
        try:
            print("answer " + json.dumps(list(api.list_databases())), flush=True)
        except RESTException as error:
            print("answer " + json.dumps(f"{type(error).__name__}: {error}"), flush=True)


main()
