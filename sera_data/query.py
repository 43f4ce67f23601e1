"""One reading query over a connection to a store, with errors that say what to do.

Invariant: a query changes nothing: whatever is not one reading statement is refused before it runs. A failure blames
the file that is damaged, else the query.

Run: ``run_query(store.connect(), "from trees limit 3")``.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from sera_data.errors import UsageError

if TYPE_CHECKING:
    import duckdb
    import polars as pl


def run_query(connection: duckdb.DuckDBPyConnection, text: str, *, path: Path | str = "STORE") -> pl.DataFrame:
    """Rows of one query; UsageError for what is no reading query, StoreError when a file is damaged."""
    import duckdb
    from polars.exceptions import PolarsError

    from sera_data.damage import require_sound

    try:
        require_reading(text)
        return connection.sql(text).pl()
    except duckdb.InterruptException:
        raise
    except PolarsError as error:
        msg = f"a column has a type that cannot be shown: {' '.join(str(error).partition('Hint')[0].split())}"
        raise UsageError(msg, hint="cast it to text: select my_column::varchar") from None
    except duckdb.Error as error:
        if not isinstance(error, (duckdb.ParserException, duckdb.BinderException, duckdb.CatalogException)):
            require_sound(connection)
        msg = f"query failed: {' '.join(str(error).split())}"
        raise UsageError(msg, hint=f"sera data describe {path} lists tables, views and columns") from None


def require_reading(text: str) -> None:
    """Refuse anything but one query: a COPY or ATTACH would write files, and a query changes nothing."""
    import duckdb

    kinds = [str(statement.type).rpartition(".")[2] for statement in duckdb.extract_statements(text)]
    if kinds not in (["SELECT"], ["EXPLAIN"]):
        msg = f"sera data sql takes exactly one query (SELECT, FROM, DESCRIBE, SHOW), got {', '.join(kinds) or 'none'}"
        raise UsageError(msg, hint="to write a file: --format parquet --output FILE")
