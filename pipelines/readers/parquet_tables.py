"""Metric tables as Parquet, read in row batches."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from features.tables import InputError
from pipelines.readers import layout
from pipelines.readers.samples import ReadContext, SampleChunk
from pipelines.readers.tally import Tally

_BATCH_CELLS = 16 << 20  # 128 MiB of float64


def read(path: Path, tally: Tally, context: ReadContext) -> Iterator[SampleChunk]:
    """The samples of a Parquet file, long or wide.

    Raises
    ------
    InputError
        It is truncated or damaged, or no column is a time.
    """
    try:
        file = pq.ParquetFile(path, pre_buffer=False)
        schema = file.schema_arrow
    except (pa.ArrowException, OSError, ValueError) as error:
        said = " ".join(str(error).split())
        raise InputError(f"{path}: no readable Parquet ({said}); it is cut or damaged, export it again") from error
    names = list(schema.names)
    found = layout.find(names, context) or layout.find(
        names, context, next((place for place, kind in enumerate(schema.types) if pa.types.is_timestamp(kind)), -1)
    )
    if found is None:
        raise InputError(f"{path}: no column is a time; call it time, timestamp or ts")
    try:
        for batch in file.iter_batches(batch_size=max(1024, _BATCH_CELLS // len(names)), use_threads=False):
            yield from layout.chunks(found, batch.columns, tally, context)
    except (pa.ArrowException, OSError) as error:
        tally.drop("torn file")
        tally.hint(f"{path} is damaged ({' '.join(str(error).split())}); what came before was kept")
