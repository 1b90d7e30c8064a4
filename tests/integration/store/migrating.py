"""A process that migrates, for tests that start several at once or kill one.

Run as `python -m tests.integration.store.migrating URL [WORD]`: with a word, the process
kills itself just before the first statement that contains it.
"""

import os
import signal
import sys
from datetime import timedelta

import sqlalchemy as sa

from manent_server.engine.migration import library
from manent_server.store.engine import connect
from manent_server.store.migrate import migrate


def main() -> None:
    url, *words = sys.argv[1:]
    engines = connect(url, pool=2, stale_after=timedelta(minutes=1))

    def die(*event: object) -> None:
        if words and words[0] in str(event[2]):
            os.kill(os.getpid(), signal.SIGKILL)

    sa.event.listen(engines.lone, "before_cursor_execute", die)
    report = migrate(engines, library=library(), patience=timedelta(minutes=1))
    sys.stdout.write(f"{' '.join(report.applied)} {'dbos' if report.dbos else ''}\n")


if __name__ == "__main__":
    main()
