"""`python -m manent_cli`."""

import sys

from manent_cli.main import main

if __name__ == "__main__":
    sys.exit(main())
