"""The command line of manent: a thin client of the HTTP API.

It imports nothing of the server and starts fast, so this module stays empty of imports.
"""

__version__ = "0.1.0"
