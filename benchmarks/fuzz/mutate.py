"""Damages files: their structure (JSON, tables, zips, Parquet), or their bytes."""

from __future__ import annotations

import csv
import io
import lzma
import warnings
import zipfile
import zlib
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import PurePosixPath
from typing import Any

import polars as pl

from benchmarks.fuzz.seeds import Seed
from benchmarks.fuzz.trees import Document, Members, Place, Raw, dump, parse, places

Pick = Callable[[int], int]
"""Chooses a number below its argument; 0 is the plainest."""

TOKENS = [
    "null", "true", "false", "NaN", "Infinity", "-Infinity", "-1", "2", "1e308", "1e400", "0.5",
    "1", "-0", "1E0", "5e-324", "9007199254740993", "1" * 400, "1" * 5000, '"True"', '"1.0"',
    '"NaN"', '"none"', '"C"', '""', '" "', '"x"', '"0"', '"00"', '"\\n"', '"\\ud800"',
    '"a\\u2028b\\u0085c\\u0000\\u001b[31m"', '"a\u2028b"', '"../../x"', '"b:1"', '"a/b"',
    "[]", "{}", "[1, 0]", "[null]", '[["a"]]', '{"a": 1}', '{"a": 1, "a": 0}', '{"": null}',
    "[" * 100 + "1" + "]" * 100, '{"a":' * 100 + "1" + "}" * 100, "[" * 100_000 + "]" * 100_000,
    '"' + "x" * 1_000_000 + '"', '"' + '\\"' * 30_000, "undefined", "'x'", "01", "+1", ".5",
]  # fmt: skip

CELLS = [
    "", " ", "NaN", "nan", "inf", "-1", "2", "1e308", "1e999", "True", "1.0", "0,5", "007", "7",
    "NA", "null", "x", "\u2028", "\x00", "\x1b[31m", "a\rb", "a\nb", 'a"b', '"', "'", "\ufeff",
    "../../x", "x" * 1_000_000, "['a'", "[" * 9999, "=1+1", "1;2", "a\tb", "b:1", "b:", ":1",
]  # fmt: skip

MEMBERS = [
    "../../x", "/tmp/x", "samples/../../x.json", "samples/.json", "samples/", "header.json", "",
    "samples/\u2028.json", "samples/" + "x" * 60_000 + ".json", "C:\\x", "_journal/start.json",
    "samples/1_epoch_1.json", "samples/x\x1b[31m.json",
]  # fmt: skip


@dataclass(frozen=True)
class Case:
    """Files to be read, and what is known of the outcome.

    Attributes:
        seed: Format, source and options (its files are the undamaged ones).
        files: Content by path.
        format: What `--format` says; None to find it.
        n_records: Records in the source, None where that is not known.
        untouched: Numbers of the records (from 0) that are as in the seed.
        note: What was done, for a person.
    """

    seed: Seed
    files: dict[str, bytes]
    format: str | None = None
    n_records: int | None = None
    untouched: frozenset[int] = frozenset()
    note: list[str] = field(default_factory=list[str])


def mutated(seed: Seed, others: list[Seed], pick: Pick) -> Case:
    """Damages one to four places of the seed's files."""
    case = Case(seed, dict(seed.files))
    name = seed.main if pick(4) else sorted(seed.files)[pick(len(seed.files))]
    known = parse(seed.files[name]) if name.endswith((".json", ".jsonl")) else None
    if known is not None and pick(8):
        return _json(case, name, known, pick)
    for _ in range(1 + pick(4)):
        data = case.files[name]
        structural = _STRUCTURES.get(PurePosixPath(name).suffix)
        if structural is not None and pick(3):
            made = structural(data, pick)
            case.note.append(f"{name}: {structural.__name__}")
            if made is not None:
                case.files[name] = made
        else:
            case.files[name] = damage(data, others, pick)
            case.note.append(f"{name}: bytes")
    return replace(case, format=seed.format if pick(2) else None)


# JSON


def _json(case: Case, name: str, document: Document, pick: Pick) -> Case:
    at = case.seed.records_at if name == case.seed.main else None
    records = document.holder(at) if at is not None else None
    touched: set[int] = set()
    whole = False
    kept = list(range(len(records))) if records is not None else []
    for _ in range(1 + pick(4)):
        every = list(places(document.value))
        if not every:
            break
        place = every[pick(len(every))]
        number = _number(place, document, at, records)
        if number is None:
            whole = True
        else:
            touched.add(kept[number])
        _change(place, every, kept if number is not None and place.holder is records else [], pick)
        case.note.append(f"{name}: {place.path}")
    case.files[name] = document.encode()
    if whole or records is None:
        return replace(case, format=case.seed.format)
    return replace(
        case,
        format=case.seed.format,
        n_records=sum(isinstance(_value(records, i), list) for i in range(len(records))),
        untouched=frozenset(n for n in kept if n not in touched and kept.count(n) == 1),
    )


def _value(holder: list[Any], index: int) -> Any:
    return holder[index][1] if isinstance(holder, Members) else holder[index]


def _number(
    place: Place, document: Document, at: str | None, records: list[Any] | None
) -> int | None:
    """Which record the place is in; None outside of them."""
    if records is None:
        return None
    if not at:
        return place.path[0]
    inside = document.value[place.path[0]][1] is records and len(place.path) > 1
    return place.path[1] if inside else None


def _change(place: Place, every: list[Place], kept: list[int], pick: Pick) -> None:
    """Changes the tree at one place; `kept` numbers the records, where these are the holder."""
    holder, index = place.holder, place.index
    member = isinstance(holder, Members)
    value = _value(holder, index)
    what = pick(9)

    def put(new: Any) -> None:
        holder[index] = [holder[index][0], new] if member else new

    if what == 0:
        del holder[index]
        del kept[index : index + 1]
    elif what == 1:
        holder.insert(index, list(holder[index]) if member else value)
        kept[index:index] = kept[index : index + 1]
    elif what == 2 and member:
        holder[index] = [_varied(holder[index][0], pick), value]
    elif what == 3 and not isinstance(value, list):
        put(_varied(value, pick))
    elif what == 4 and isinstance(value, Members):
        put([v for _, v in value])
    elif what == 4 and isinstance(value, list):
        put(Members([str(i), v] for i, v in enumerate(value)))
    elif what == 4:
        put([value])
    elif what == 5:
        other = every[pick(len(every))]
        if other.index < len(other.holder):
            put(Raw(dump(_value(other.holder, other.index))))
    else:
        put(Raw(TOKENS[pick(len(TOKENS))]))


def _varied(value: Any, pick: Pick) -> Any:
    """Nearly the same: another case, zeros in front, a space, another type."""
    if isinstance(value, Raw):
        return value
    text = value if isinstance(value, str) else str(value)
    return [text.swapcase(), "0" + text, text + " ", text + "\x1b", text[:-1], Raw(text)][pick(6)]


# Tables


def table(data: bytes, pick: Pick) -> bytes | None:
    """Damages a table's cells, rows, header or quoting."""
    text = data.decode("utf-8", "replace")
    mark = "\t" if "\t" in text.split("\n")[0] else ","
    try:
        rows = list(csv.reader(io.StringIO(text, newline=""), delimiter=mark))
    except csv.Error:
        return None
    if not rows or not rows[0]:
        return None
    r = pick(len(rows))
    c = pick(max(len(rows[r]), 1))
    what = pick(12)
    if what == 0:
        rows[r][c : c + 1] = [CELLS[pick(len(CELLS))]]
    elif what == 1:
        del rows[r][c : c + 1]
    elif what == 2:
        rows[r].insert(c, CELLS[pick(len(CELLS))])
    elif what == 3:
        rows.insert(r, list(rows[r]))
    elif what == 4:
        del rows[r]
    elif what == 5:
        c = pick(len(rows[0]))
        for row in rows:
            row[c : c + 1] = row[c : c + 1] * 2
    elif what == 6:
        c = pick(len(rows[0]))
        for row in rows:
            del row[c : c + 1]
    elif what == 7:
        rows[0][pick(len(rows[0]))] = rows[0][pick(len(rows[0]))]
    elif what == 8:
        rows.insert(r, [])
    if what == 9:
        mark = [";", "|", "\t", " ", ","][pick(5)]
    out = io.StringIO(newline="")
    writer = csv.writer(out, delimiter=mark, lineterminator=["\n", "\r\n", "\r"][pick(3)])
    for row in rows:
        try:
            writer.writerow(row)
        except csv.Error:
            return None
    made = out.getvalue()
    if what == 10:
        made = "\ufeff" + made
    if what == 11:
        at = pick(len(made) or 1)
        made = made[:at] + ['"', '""', "\\", "\r", "\n"][pick(5)] + made[at:]
    return made.encode()


# Zips

_PACKING = (zlib.error, lzma.LZMAError, RuntimeError)


def archive(data: bytes, pick: Pick) -> bytes | None:
    """Damages a zip's directory, or the JSON in a member."""
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as file:
            entries = [(e.filename, file.read(e), e.compress_type) for e in file.infolist()]
    except (zipfile.BadZipFile, NotImplementedError, OSError, EOFError, ValueError, *_PACKING):
        return None
    if not entries:
        return None
    i = pick(len(entries))
    name, content, method = entries[i]
    what = pick(8)
    if what == 0:
        del entries[i]
    elif what == 1:
        entries.append(entries[i])
    elif what == 2:
        entries[i] = (MEMBERS[pick(len(MEMBERS))], content, method)
    elif what == 3:
        entries[i] = (name, b'{"id": "' + b"0" * (20 << 20) + b'"}', zipfile.ZIP_DEFLATED)
    elif what == 4:
        entries[i] = (name, content, [0, 8, 12, 14][pick(4)])
    else:
        document = parse(content)
        for _ in range(1 + pick(3)):
            every = list(places(document.value)) if document is not None else []
            if every:
                _change(every[pick(len(every))], every, [], pick)
        content = content if document is None else document.encode()
        entries[i] = (name, content, method)
    buffer = io.BytesIO()
    with warnings.catch_warnings(), zipfile.ZipFile(buffer, "w") as file:
        warnings.simplefilter("ignore")
        for name, content, method in entries:
            try:
                file.writestr(name, content, method)
            except (ValueError, IndexError):  # a name that no zip can have
                return None
    return buffer.getvalue()


# Parquet

_TYPES: list[Any] = [
    pl.String, pl.Float64, pl.Int64, pl.Boolean, pl.Binary, pl.Date, pl.Categorical, pl.Int8,
    pl.UInt64, pl.Datetime, pl.Duration, pl.Float32, pl.Decimal(10, 2), pl.Time,
]  # fmt: skip


def parquet(data: bytes, pick: Pick) -> bytes | None:
    """Damages a Parquet file's columns."""
    try:
        frame = pl.read_parquet(io.BytesIO(data))
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException, OSError):
        return None
    if not frame.width:
        return None
    column = frame.columns[pick(frame.width)]
    series, what = frame[column], pick(9)
    try:
        if what == 0:
            frame = frame.with_columns(series.cast(_TYPES[pick(len(_TYPES))], strict=False))
        elif what == 1:
            frame = frame.drop(column)
        elif what == 2:
            other = frame.columns[pick(frame.width)]
            frame = frame.rename({column: f"{other} "})
        elif what == 3:
            frame = frame.with_columns(series.implode().new_from_index(0, frame.height))
        elif what == 4:
            frame = frame.with_columns(pl.struct(column).alias(column))
        elif what == 5:
            frame = frame.with_columns(pl.lit(None).alias(column))
        elif what == 6:
            frame = pl.concat([frame, frame.slice(pick(frame.height or 1), 1)])
        elif what == 7:
            value = CELLS[pick(len(CELLS))]
            column_as_text = series.cast(pl.String, strict=False)
            place = pl.int_range(frame.height) == pick(frame.height or 1)
            new = pl.when(place).then(pl.lit(value)).otherwise(column_as_text)
            frame = frame.with_columns(new.alias(column))
        elif series.dtype == pl.Struct:
            fields = series.struct.unnest()
            inner = fields.columns[pick(fields.width)]
            cast = fields[inner].cast(_TYPES[pick(len(_TYPES))], strict=False)
            changed = [fields.with_columns(cast), fields.drop(inner), fields.rename({inner: "z"})]
            frame = frame.with_columns(changed[pick(3)].to_struct(column))
        else:
            frame = frame.with_columns(pl.lit(float("nan")).alias(column))
        buffer = io.BytesIO()
        packing: Any = ["snappy", "zstd", "uncompressed", "gzip", "lz4"][pick(5)]
        frame.write_parquet(buffer, compression=packing, row_group_size=4)
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException):
        return None
    return buffer.getvalue()


# Bytes

_BITS = [
    b"", b"\x00", b"\xff", b"\xff\xff\xff\xff", b"\xff\xff\xff\x7f", b"\x80\x80\x80\x80\x08", b'"',
    b"\\", b"\n", b"\r", b"\xef\xbb\xbf", b"\xe2\x80\xa8", b"\xed\xa0\x80", b"{", b"]",
    b"PK\x03\x04",
    b"PAR1", b"\x1f\x8b\x08\x00", b"(\xb5/\xfd", b"NaN", b",", b"\xc3",
]  # fmt: skip


def damage(data: bytes, others: list[Seed], pick: Pick) -> bytes:
    """Cuts, flips, inserts, repeats, or goes on with another file."""
    if not data:
        return _BITS[pick(len(_BITS))]
    # Places are counted from the end as often as from the start: footers stand there.
    at = pick(len(data))
    at = at if pick(2) else len(data) - 1 - min(at, pick(200) if pick(2) else at)
    what = pick(7)
    if what == 0:
        return data[:at]
    if what == 1:
        return data[:at] + bytes([data[at] ^ (1 << pick(8))]) + data[at + 1 :]
    if what == 2:
        return data[:at] + bytes([pick(256)]) + data[at + 1 :]
    if what == 3:
        bits = _BITS[pick(len(_BITS))]
        return data[:at] + bits + data[at + (len(bits) if pick(2) else 0) :]
    if what == 4:
        return data[:at] + data[at + 1 + pick(64) :]
    if what == 5:
        return data[:at] + data[max(0, at - pick(200)) : at] + data[at:]
    seed = others[pick(len(others))]
    other = seed.files[sorted(seed.files)[pick(len(seed.files))]]
    return data[:at] + other[pick(len(other) or 1) :]


_STRUCTURES: dict[str, Callable[[bytes, Pick], bytes | None]] = {
    ".csv": table,
    ".tsv": table,
    ".eval": archive,
    ".parquet": parquet,
}
