"""One table of a view for Polars, PyArrow and Hugging Face datasets.

Invariant: every reader gets the explicit schema and the same file list, so all give the same rows; columns that older
files lack are null. Files of a view never change; a view that is an hour old may name shards that gc has dropped.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from schemas.table import Table
from sera_data.place import ObjectPath, Place, in_objects

if TYPE_CHECKING:
    import datasets
    import polars
    import pyarrow as pa
    import pyarrow.dataset

    from sera_data.listing import Listing


@dataclass(frozen=True)
class TableView:
    """A table as one listing of the store shows it."""

    table: Table
    listing: Listing

    @property
    def files(self) -> list[Place]:
        """The Parquet files that hold the rows."""
        return self.listing.files(self.table.name)

    def __len__(self) -> int:
        return self.listing.rows(self.table.name)

    def dataset(self) -> pyarrow.dataset.Dataset:
        """A PyArrow dataset: scan it by column and filter."""
        import pyarrow.dataset as arrow_dataset

        schema, (near, far) = self._schema(), self._split()
        parts = (
            [arrow_dataset.dataset([str(p) for p in near], schema=schema, format="parquet")] if near or not far else []
        )
        if far:
            from pyarrow.fs import FSSpecHandler, PyFileSystem

            from sera_data.published_files import filesystem

            names = [f"{path.bucket}/{path.key}" for path in far]
            reached = PyFileSystem(FSSpecHandler(filesystem()))
            parts.append(arrow_dataset.dataset(names, schema=schema, format="parquet", filesystem=reached))
        return parts[0] if len(parts) == 1 else arrow_dataset.dataset(parts)

    def arrow(self, columns: Sequence[str] | None = None) -> pa.Table:
        """All rows as an Arrow table."""
        return self.dataset().to_table(columns=None if columns is None else list(columns))

    def lazy(self) -> polars.LazyFrame:
        """A Polars lazy frame."""
        import polars as pl

        empty = pl.DataFrame(pl.from_arrow(self._schema().empty_table()))
        near, far = self._split()
        how: dict[str, Any] = {"schema": empty.schema, "missing_columns": "insert"}
        how |= {"hive_partitioning": False, "glob": False}
        parts = [pl.scan_parquet(near, **how)] if near else []
        if far:
            from sera_data.bucket import polars_options

            parts.append(pl.scan_parquet([str(path) for path in far], storage_options=polars_options(), **how))
        return pl.concat(parts) if parts else empty.lazy()

    def pl(self, columns: Sequence[str] | None = None) -> polars.DataFrame:
        """All rows as a Polars frame."""
        lazy = self.lazy()
        return (lazy if columns is None else lazy.select(columns)).collect()

    def hf(self, columns: Sequence[str] | None = None) -> datasets.IterableDataset:
        """A streaming Hugging Face dataset (nothing is copied into a cache)."""
        import datasets

        names = self._schema().names if columns is None else list(columns)
        features = datasets.Features.from_arrow_schema(self._schema())
        wanted = datasets.Features({name: features[name] for name in names})

        def batches() -> Any:
            for batch in self.dataset().to_batches(columns=names):
                yield from batch.to_pylist()

        return datasets.IterableDataset.from_generator(batches, features=wanted)

    def _split(self) -> tuple[list[Path], list[ObjectPath]]:
        """The files on disk, and those in object storage."""
        files = self.files
        return [p for p in files if isinstance(p, Path)], [p for p in files if in_objects(p)]

    def _schema(self) -> pa.Schema:
        import pyarrow as pa

        return pa.schema([f.remove_metadata() for f in self.table.schema])
