"""Makes web/tests/data.parquet: a table as the explorer writes them, for the page's own tests."""

import sys

import polars as pl

N = 1000
pl.DataFrame(
    {
        "code": pl.Series([None if i % 7 == 3 else i % 250 for i in range(N)], dtype=pl.UInt8),
        "share": pl.Series([None if i % 5 == 2 else i / N for i in range(N)], dtype=pl.Float32),
        "text": [None if i % 11 == 4 else f"<b>“{i}”\u202e" for i in range(N)],
        "flag": [i % 3 == 0 for i in range(N)],
    }
).write_parquet(
    sys.argv[1], compression="zstd", compression_level=12, statistics=False, row_group_size=500
)
