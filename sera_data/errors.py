"""The errors of the toolkit and the exit codes of its commands.

Invariant: a message says what was got, what is allowed and how to fix it, with the path or id; the command line
prints it as one line and exits with `exit_code`: 1 fault, 2 usage or config, 3 gate failed, 75 preempted.
"""


class SeraError(Exception):
    """A fault that the user can understand and act on. `hint` is printed after the message."""

    exit_code = 1

    def __init__(self, message: str, *, hint: str | None = None) -> None:
        super().__init__(message)
        self.hint = hint

    def __str__(self) -> str:
        text = super().__str__()
        return f"{text} (hint: {self.hint})" if self.hint else text


class UsageError(SeraError):
    """Wrong arguments or configuration."""

    exit_code = 2


class ConfigError(UsageError):
    """A configuration file or override that is not valid."""


class StoreError(SeraError):
    """The store is damaged, incomplete, of another version, or used against its rules."""


class RowError(StoreError):
    """A row that the writer refuses: missing or unknown column, wrong type, broken token rule."""


class GateFailed(SeraError):
    """A gate of the audit failed."""

    exit_code = 3


class Preempted(SeraError):
    """The process was asked to stop and can be resumed by the same command."""

    exit_code = 75
