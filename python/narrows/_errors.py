"""The exceptions of the package."""

from __future__ import annotations


class NarrowsError(Exception):
    """What cannot be done; its text says what was wrong and what to do."""


class Refused(NarrowsError, ValueError):
    """An input that was refused before anything ran.

    The text is the line that the command prints. ``file`` and ``line`` say where, as far as the
    input has such places; ``key`` names what was refused, ``found`` is what stands there and
    ``allowed`` what may.
    """

    def __init__(
        self,
        text: str,
        file: str | None = None,
        line: int | None = None,
        key: str = "",
        found: str = "",
        allowed: str = "",
    ) -> None:
        super().__init__(text, file, line, key, found, allowed)
        self.file = file
        self.line = line
        self.key = key
        self.found = found
        self.allowed = allowed

    def __str__(self) -> str:
        return str(self.args[0])


class NoPermission(NarrowsError):
    """A right is missing: root's, or to a file."""


class RunFailed(NarrowsError):
    """The engine could not run the scenario to its end."""


class FileFailed(NarrowsError):
    """A file cannot be read or written, or holds something else than it should."""


class Defect(NarrowsError):
    """A mistake in Narrows itself."""


class SweepFailed(NarrowsError):
    """Cells of a sweep that an executor did not bring to an end.

    ``errors`` has what was raised for each of them. The cells that ended are in the store: the
    same call goes on with the rest.
    """

    def __init__(self, text: str, errors: dict[str, BaseException] | None = None) -> None:
        super().__init__(text, errors)
        self.errors: dict[str, BaseException] = errors or {}

    def __str__(self) -> str:
        return str(self.args[0])
