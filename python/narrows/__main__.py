"""``python -m narrows``: the command."""

from ._command import main

main()
