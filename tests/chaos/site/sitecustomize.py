"""Makes a mutant or a victim of a process of the tests, when its variables say so.

Python imports this at its start where a test has put this folder on PYTHONPATH.
"""

import os
import select
import sys
import time
from pathlib import Path

_MUTANT = os.environ.get("CHAOS_MUTANT", "")  # noqa: TID251 - this is no code of the product
_STRAIN = os.environ.get("CHAOS_STRAIN", "")  # noqa: TID251 - nor is this
_CRASH = os.environ.get("CHAOS_CRASH", "")  # noqa: TID251 - neither is this

if "FAKETIME" in os.environ:  # noqa: TID251 - the library's own variable
    # libfaketime refuses the absolute sleeps Python asks the kernel for; a wait does as well.
    time.sleep = lambda seconds: select.select([], [], [], max(0.0, seconds)) and None
if _MUTANT or _STRAIN or _CRASH:
    sys.path.insert(0, str(Path(__file__).parents[3]))
if _MUTANT:
    from tests.chaos import mutants

    mutants.apply(_MUTANT)
if _STRAIN:
    from tests.chaos import strains

    strains.apply(_STRAIN)
if _CRASH:
    from tests.chaos import crash

    crash.install(Path(_CRASH))
