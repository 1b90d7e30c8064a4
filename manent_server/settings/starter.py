"""The manent.yml that `init` writes: small, commented, deployable at once."""

import json
from pathlib import Path

_TEXT = """\
# Written by `manent-server init`. Next:
#   manent-server serve
#   manent deploy hello staging v1
# `manent-server check` lists what is wrong with this file.

server:
  listen: 127.0.0.1:8420            # API and /livez, /readyz
  url: http://127.0.0.1:8420        # public address, used in links

database:
  url: sqlite:///manent.db          # beside this file; or postgresql://manent:${DB_PASSWORD}@db/manent

environments:
  staging:
    tier: staging                   # development, staging or production
  production:
    tier: production

applications:
  hello:
    plugin: command                 # argument lists, no shell unless you name one
    options:
      # The version is in MANENT_VERSION, never part of the command line. Replace these by your own.
      deploy: [sh, -c, 'echo "hello from $MANENT_ENVIRONMENT, now at $MANENT_VERSION"']
      rollback: [sh, -c, 'echo "$MANENT_ENVIRONMENT goes back to $MANENT_VERSION"']
    environments:
      staging:
        targets: {here: {}}         # a target's value is its own plugin options
      production:
        targets: {here: {}, there: {}}
        waves: [1, rest]            # one target first, then the others
"""


def starter(folder: Path) -> str:
    """The file for a new installation.

    Args:
        folder: Where it will lie; only named in its first line.
    """
    name = json.dumps(folder.name, ensure_ascii=True)
    return f"# manent in {name}\n{_TEXT}" if folder.name else _TEXT
