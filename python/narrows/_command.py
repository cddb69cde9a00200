"""The command ``narrows``: a process of Python's that is from here on no different from a program."""

from __future__ import annotations

import os
import signal
import sys
from typing import NoReturn

from . import _narrows


def main() -> NoReturn:
    """Does what the command line says, and ends the process."""
    # What Python has for itself would be inherited by the programs that are started, and Ctrl-C
    # waited for by an interpreter that runs nothing.
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
    # A file that is opened must not become what is written to as standard output.
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)
    name, *arguments = sys.argv
    if os.path.basename(name) == "__main__.py":
        name = "narrows"
    before = sys.orig_argv[1 : len(sys.orig_argv) - len(arguments)]
    _narrows.command([name, *arguments], (sys.executable, before))
