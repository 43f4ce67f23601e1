"""A SQL shell over a store: statements that end in `;`, and commands that begin with a dot.

Invariant: the shell changes nothing in the store; a fault of one statement is reported with a hint and leaves the shell
as it was. It knows nothing of terminals: `feed` takes lines, `write` prints.

Run: ``Shell(connection).feed("select count(*) from trees;")``.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sera_data.errors import UsageError
from sera_data.query import run_query
from sera_data.rows_format import Format, write_rows

if TYPE_CHECKING:
    import duckdb
    import polars as pl

SHOWN_ROWS = 100
HELP = """\
A statement ends in ';' and may take several lines. Commands:
  .tables            tables and views with their rows
  .describe [NAME]   what a table or view holds, column by column
  .mode FORMAT       how rows are printed: table, csv or json (now {mode})
  .rows N            rows of a table that are printed (now {rows}); 0 = all
  .save FILE         write the last result as .csv, .json, .parquet or text
  .read FILE         run the statements of a file
  .quit              leave (or Ctrl-D)
"""


class Shell:
    """One session. name: how hints call the store. run: how a statement is run; replace it to run it elsewhere."""

    def __init__(
        self,
        connection: duckdb.DuckDBPyConnection,
        *,
        name: Path | str = "STORE",
        run: Callable[[str], pl.DataFrame] | None = None,
    ) -> None:
        self.connection, self.name = connection, name
        self.mode, self.rows = Format.table, SHOWN_ROWS
        self.last: pl.DataFrame | None = None
        self.open = True
        self._run = run or (lambda text: run_query(connection, text, path=name))
        self._buffer: list[str] = []
        self._commands: dict[str, Callable[[list[str]], None]] = {
            ".help": lambda words: print(HELP.format(mode=self.mode.value, rows=self.rows)),
            ".tables": self._tables,
            ".describe": self._describe,
            ".mode": self._set_mode,
            ".rows": self._set_rows,
            ".save": self._save,
            ".read": self._read,
            ".quit": self._quit,
            ".exit": self._quit,
        }

    @property
    def waiting(self) -> bool:
        """True inside a statement that has no `;` yet."""
        return bool(self._buffer)

    def feed(self, line: str) -> None:
        """Take a line; run what it completes. Raises UsageError for a fault, with the unfinished statement dropped."""
        if not self._buffer and not line.strip():
            return
        if not self._buffer and line.lstrip().startswith("."):
            self._command(line.strip())
            return
        self._buffer.append(line)
        text = "\n".join(self._buffer)
        if is_complete(text):
            self._buffer.clear()
            self._statements(text)

    def finish(self) -> None:
        """The end of the input: run a last statement without `;`."""
        text = "\n".join(self._buffer)
        self._buffer.clear()
        if text.strip():
            self._statements(text)

    def drop(self) -> None:
        """Forget an unfinished statement."""
        self._buffer.clear()

    def words(self) -> list[str]:
        """What can be completed: commands, tables, views and their columns."""
        from sera_data.catalogue import relations

        known = {name: self.connection.table(name).columns for name in relations()}
        return sorted({*self._commands, *known, *(column for columns in known.values() for column in columns)})

    def _statements(self, text: str) -> None:
        import duckdb

        try:
            statements = [statement.query for statement in duckdb.extract_statements(text)]
        except duckdb.Error as error:
            msg = f"query failed: {' '.join(str(error).split())}"
            raise UsageError(msg, hint=".tables lists tables and views, .describe NAME their columns") from None
        for statement in statements:
            self.last = self._run(statement)
            self._show(self.last)

    def _show(self, frame: pl.DataFrame) -> None:
        cut = self.mode is Format.table and 0 < self.rows < len(frame)
        write_rows(frame.head(self.rows) if cut else frame, self.mode, None)
        if cut:
            print(f"{len(frame) - self.rows} more rows (.rows 0 prints all, .save FILE writes them)")

    def _command(self, line: str) -> None:
        try:
            word, *words = shlex.split(line.rstrip(";"))
        except ValueError as error:
            msg = f"{line}: {error}"
            raise UsageError(msg, hint="close the quotation mark") from None
        if word not in self._commands:
            msg = f"no command {word!r}; commands: {', '.join(self._commands)}"
            raise UsageError(msg, hint=".help says what they do; SQL does not begin with a dot")
        self._commands[word](words)

    def _tables(self, words: list[str]) -> None:
        from sera_data.catalogue import relations
        from sera_data.printing import print_table

        rows = [(name, self._run(f"select count(*) from {name}").item(), doc) for name, doc in relations().items()]
        print_table(("name", "rows", "holds"), rows)

    def _describe(self, words: list[str]) -> None:
        from sera_data.catalogue import columns, relations, require_relation
        from sera_data.printing import print_table

        if not words:
            self._tables(words)
            return
        require_relation(words[0])
        print(relations()[words[0]])
        rows = [(c["column"], c["type"], c["doc"]) for c in columns(self.connection, words[0])]
        print_table(("column", "type", "meaning"), rows)

    def _set_mode(self, words: list[str]) -> None:
        allowed = [f.value for f in Format if f is not Format.parquet]
        if len(words) != 1 or words[0] not in allowed:
            msg = f".mode takes one of {', '.join(allowed)}, got {' '.join(words) or 'nothing'}"
            raise UsageError(msg, hint="for parquet: .save FILE.parquet")
        self.mode = Format(words[0])

    def _set_rows(self, words: list[str]) -> None:
        if len(words) != 1 or not words[0].isdigit():
            msg = f".rows takes one number, got {' '.join(words) or 'nothing'}"
            raise UsageError(msg, hint=".rows 0 prints all")
        self.rows = int(words[0])

    def _save(self, words: list[str]) -> None:
        if self.last is None or len(words) != 1:
            msg = ".save FILE writes the last result; " + ("nothing was asked yet" if words else "name a file")
            raise UsageError(msg, hint="the ending says how: .csv, .json, .parquet, else a text table")
        path = Path(words[0])
        fmt = {f".{f.value}": f for f in Format}.get(path.suffix, Format.table)
        write_rows(self.last, fmt, path)
        print(f"{len(self.last)} rows in {path}")

    def _read(self, words: list[str]) -> None:
        if len(words) != 1:
            msg = ".read takes one file"
            raise UsageError(msg)
        try:
            text = Path(words[0]).read_text(encoding="utf-8")
        except (OSError, ValueError) as error:
            msg = f"{words[0]} cannot be read: {error}"
            raise UsageError(msg, hint="name a UTF-8 file with SQL") from None
        self._statements(text)

    def _quit(self, words: list[str]) -> None:
        self.open = False


def is_complete(text: str) -> bool:
    """True when the text ends in a `;` that is no part of a string or comment."""
    import duckdb

    if not text.rstrip().endswith(";"):
        return False
    try:
        duckdb.extract_statements(text + "\nselect 1")
    except duckdb.Error as error:
        return "unterminated" not in str(error).lower()
    return True


def feed_all(shell: Shell, lines: Any) -> None:
    """Run a script: every line, then what is left. The first fault ends it."""
    for line in lines:
        shell.feed(line.rstrip("\n"))
        if not shell.open:
            return
    shell.finish()
