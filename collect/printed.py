"""What a cell printed, cut to what an agent is shown.

Invariant: memory is bounded by `shown` however much is printed; the first three quarters and the last quarter of
`shown` are kept, and a marker says how many characters are missing between them.
"""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(slots=True)
class Printed:
    """Output of one cell: at most `shown` characters are kept, more than `limit` end the cell."""

    shown: int
    limit: int
    count: int = 0
    _head: list[str] = field(default_factory=list)
    _tail: str = ""
    _room: int = 0

    def __post_init__(self) -> None:
        self._room = self.shown - self.shown // 4

    @property
    def too_much(self) -> bool:
        """Whether more was printed than a cell may."""
        return self.count > self.limit

    def take(self, _: str, text: str) -> None:
        """Take in more of a stream; raises MemoryError, which ends the cell, beyond the limit."""
        self.count += len(text)
        if self.too_much:
            msg = f"more than {self.limit} characters printed"
            raise MemoryError(msg)
        self._add(text)

    def show(self, text: str) -> None:
        """Take in what nobody printed, such as the value of the last expression, without a limit but the shown."""
        self.count += len(text)
        self._add(text)

    def text(self) -> str:
        """The output, with a marker in place of the characters left out."""
        head = "".join(self._head)
        left_out = self.count - len(head) - len(self._tail)
        marker = f"\n[{left_out} characters left out]\n" if left_out > 0 else ""
        return head + marker + self._tail

    def _add(self, text: str) -> None:
        if self._room > 0:
            head, text = text[: self._room], text[self._room :]
            self._head.append(head)
            self._room -= len(head)
        if text:
            self._tail = (self._tail + text)[-(self.shown // 4) :]
