"""Hostile input, by a table: each ends in a study that lost nothing, or in one line."""

from __future__ import annotations

import contextlib
import copy
import io
import json
import os
import stat
import struct
import tempfile
import time
import warnings
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from benchmarks.fuzz.formats import FORMATS, Kind
from benchmarks.fuzz.seeds import FAMILIES
from benchmarks.fuzz.trees import Members, Raw, parse, places

from thetascope.errors import InputError
from thetascope.readers import ReadOptions, json_stream, read
from thetascope.readers.builder import StudyBuilder
from thetascope.readers.parquet import try_out
from thetascope.readers.records import outline
from thetascope.study import Study

ID_AT: dict[str, tuple[Any, ...]] = {
    "lm-eval": (0, 0, "doc_id"),
    "inspect": (1, 0, "id"),
    "helm": (1, 0, "instance_id"),
    "swe-bench": (0, "instance_id"),
    "lm-eval-old": (0, "doc_id"),
    "livecodebench": (0, 0, "question_id"),
    "mt-bench": (0, "question_id"),
    "mmlu-pro": (0, "question_id"),
    "zeroeval": (0, "id"),
    "every-eval-ever": (0, "sample_id"),
}
"""Where the first record's id stands in the parts of a format."""

SCORE_AT: dict[str, tuple[Any, ...]] = {
    "lm-eval": (0, 0, "acc"),
    "inspect": (1, 0, "scores", "m", "value"),
    "lm-eval-old": (0, "acc"),
    "livecodebench": (0, 0, "pass@1"),
    "zeroeval": (0, "correct"),
    "opencompass": (0, "details", "0", "correct"),
    "every-eval-ever": (0, "evaluation", "score"),
    "llmrouter": (0, "scores", "m"),
    "swe-bench": (0, "test_result", "report", "resolved"),
}

HEADER = {"version": 2, "status": "success", "eval": {"task": "t", "model": "m"}}
TABLE = "item_id,model,score\n"


def put_at(parts: Any, path: tuple[Any, ...], value: Any) -> Any:
    """A copy of the parts with the value at that place."""
    made = inside = copy.deepcopy(parts)
    for key in path[:-1]:
        inside = inside[key]
    inside[path[-1]] = value
    return made


def read_kind(kind: Kind, parts: Any, folder: Path, name: str) -> Study:
    kind.write(folder, parts)
    return read(folder / kind.sources[0], format=name, options=kind.options)


def refusal(path: Path, **how: Any) -> str:
    """The message without the folder's name."""
    with pytest.raises(InputError) as caught:
        read(path, **how)
    message = str(caught.value)
    assert message.isprintable()
    folder = path if path.is_dir() else path.parent
    return message.replace(f"{folder}/", "")


IDS = [
    "7",
    "07",
    "007",
    "7.0",
    "a",
    "A",
    " a",
    "a ",
    "NA",
    "null",
    "a\u2028b",
    "a\u0085b",
    "é",
    "e\u0301",
]


@pytest.mark.parametrize("name", ID_AT)
def test_ids_that_look_alike_stay_apart(name: str, tmp_path: Path) -> None:
    kind, at = FORMATS[name], ID_AT[name]
    parts = copy.deepcopy(kind.parts)
    holder: Any = parts
    for key in at[:-2]:
        holder = holder[key]
    first = holder[0]
    holder[:] = [{**copy.deepcopy(first), at[-1]: key} for key in IDS]
    study = read_kind(kind, parts, tmp_path, name)
    suffix = "/turn-1" if name == "mt-bench" else ""
    assert study.items["source_id"].to_list() == [i + suffix for i in IDS]
    assert study.responses.height == len(IDS)


@pytest.mark.parametrize("name", ID_AT)
def test_an_id_of_a_megabyte(name: str, tmp_path: Path) -> None:
    kind = FORMATS[name]
    long = "x" * 1_000_000
    study = read_kind(kind, put_at(kind.parts, ID_AT[name], long), tmp_path, name)
    assert study.items["source_id"].str.len_chars().max() >= 1_000_000  # type: ignore[operator]
    assert max(map(len, study.report.lines())) < 4_000


def test_an_error_about_a_megabyte_is_short(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text(TABLE + f"b:{'x' * 1_000_000},m,{'y' * 1_000_000}\n")
    assert len(refusal(path)) < 500
    path.write_text("x" * 1_000_000 + ",model,score\nb:1,m,1\n")
    assert len(refusal(path, format="tables")) < 4_000


@pytest.mark.parametrize("name", SCORE_AT)
def test_scores_as_words(name: str, tmp_path: Path) -> None:
    kind, at = FORMATS[name], SCORE_AT[name]
    one = {"livecodebench": 100.0}.get(name, 1.0)
    for value in ("True", "1.0", True, 1):
        study = read_kind(kind, put_at(kind.parts, at, value), tmp_path, name)
        assert study.responses["score"].max() == pytest.approx(1.0 if one == 1 else 0.5)
    nan = read_kind(kind, put_at(kind.parts, at, float("nan")), tmp_path, name)
    assert sum(d.n for d in nan.report.dropped.values()) == 1
    for value in (float("inf"), float("-inf"), -1.5, "x", [1], 10**400):
        with pytest.raises(InputError) as caught:
            read_kind(kind, put_at(kind.parts, at, value), tmp_path, name)
        assert caught.value.record is not None
        # Where the metric is to be found, what is no score is no metric.
        assert caught.value.field is not None or "no metric that is one number" in str(caught.value)


def json_seeds() -> Iterator[Any]:
    for family in FAMILIES.values():
        for seed in family():
            if seed.main.endswith((".json", ".jsonl")):
                yield pytest.param(seed, id=f"{seed.format}-{seed.main[-24:]}")


@pytest.mark.parametrize("seed", list(json_seeds()))
@pytest.mark.parametrize("depth", [100, 100_000])
def test_nesting(seed: Any, depth: int, tmp_path: Path) -> None:
    document = parse(seed.files[seed.main])
    assert document is not None
    for name, data in seed.files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(data)
    place = list(places(document.value))[-1]
    deep = Raw("[" * depth + "]" * depth)
    member = isinstance(place.holder, Members)
    place.holder[place.index] = [place.holder[place.index][0], deep] if member else deep
    (tmp_path / seed.main).write_bytes(document.encode())
    with contextlib.suppress(InputError):
        read(tmp_path / seed.source, format=seed.format, options=seed.options)


# Lines and encodings


def samples(*records: bytes) -> bytes:
    made = (
        b'{"evaluation_id":"e","model_id":"m","evaluation_name":"b","sample_id":%s,'
        b'"evaluation":{"score":1}}'
    )
    return b"\n".join(made % r for r in records)


@pytest.mark.parametrize(
    ("data", "ended"),
    [
        (samples('"a\u2028b\u0085c"'.encode()), ["a\u2028b\u0085c"]),
        (samples(b'"\\ud800"', b'"\\ud83d\\ude00"'), ["\ufffd", "\U0001f600"]),
        (samples(b'"a"') + b"\r\n\r\n" + samples(b'"b"'), ["a", "b"]),
        (b"\xef\xbb\xbf" + samples(b'"a"'), ["a"]),
        (samples(b'"a"', b'"\xff"'), "a.jsonl, record 2: is not UTF-8 (byte 71)"),
        (samples(b'"a"', b'"\xed\xa0\x80"'), "a.jsonl, record 2: is not UTF-8 (byte 71)"),
        (samples(b'"a"', b"[]"), "a.jsonl, record 2, field 'sample_id': expected a number or text"),
        (samples(b'"a"', b'"\x00"'), "a.jsonl, record 2: is not JSON: Invalid control character"),
        (samples(b'"a"', b"1" * 5000), "a.jsonl, record 2: holds a number too long to read"),
        (samples(b'"a"', b'"b"')[:-9], "a.jsonl, record 2: is not JSON"),
        (samples(b'"a"').decode().encode("utf-16"), "a.jsonl, record 1: is not UTF-8 (byte 0)"),
    ],
)  # fmt: skip
def test_lines(data: bytes, ended: list[str] | str, tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_bytes(data)
    if isinstance(ended, list):
        assert read(path).items["source_id"].to_list() == ended
    else:
        assert refusal(path, format="every-eval-ever").startswith(ended)


# Tables


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("item_id,model,score,score\nb:1,m,1,0\n", "field 'score': the column stands twice"),
        (TABLE + 'b:1,m,1\n"b:2,m,0\nb:3,m,0\n', "cannot be read as a table"),
        (TABLE + "b:1,m,1\nb:2,m,0,7\n", "cannot be read as a table"),
        (TABLE + "b:1,m,1\n\nb:2,m,0\n", "record 2, field 'item_id': is empty"),
        ("item_id,model,score\rb:1,m,1\r", "a.csv: has no rows"),
        (TABLE + "b:1,m,1,5\n", "cannot be read as a table"),
        ("item_id,model,score,trials\nb:1,m,1,1.5\n", "field 'trials': expected a whole number"),
        ("item_id,model,score,cost_usd\nb:1,m,1,inf\n", "field 'cost_usd': must be at least 0"),
    ],
)
def test_csv(text: str, message: str, tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text(text, newline="")
    assert message in refusal(path, format="tables")


def test_short_rows_are_counted(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text(TABLE + "b:1,m,1\nb:2,m\n")
    report = read(tmp_path / "a.csv").report
    assert (report.read, report.kept, report.dropped["no score (null or NaN)"].n) == (2, 1, 1)


@pytest.mark.parametrize("format", ["tables", "embedllm", "router-tables"])
@pytest.mark.parametrize("start", [b"\x1f\x8b\x08\x00", b"\x28\xb5\x2f\xfd"])
def test_packed_tables(format: str, start: bytes, tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_bytes(start + b"x" * 100)
    message = refusal(tmp_path / "a.csv", format=format)
    assert message == "a.csv: is a compressed file (unpack it first)"


@pytest.mark.parametrize("name", ["a[1].csv", "a*.csv", "a?.csv"])
def test_a_name_is_no_pattern(name: str, tmp_path: Path) -> None:
    for other in ("a1.csv", "ab.csv", name):
        (tmp_path / other).write_text(TABLE + f"b:{other},m,1\n")
    assert read(tmp_path / name).items["source_id"].to_list() == [name]


def test_columns_called_as_ours(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("item_id,model,score,_row,_score,_given\nb:1,m,1,x,y,z\n")
    assert read(tmp_path / "a.csv").responses.height == 1
    (tmp_path / "w.csv").write_text("score,row,column,_row,item_id,model\nx,1,0,1,0,1\n")
    options = ReadOptions(wide="items-in-rows", benchmark="b")
    study = read(tmp_path / "w.csv", format="tables", options=options)
    assert dict(study.responses.select("model", "score").iter_rows()) == {
        "row": 1, "column": 0, "_row": 1, "item_id": 0, "model": 1,
    }  # fmt: skip


LONG = {"item_id": ["b:1", "b:2"], "model": ["m", "m"], "score": [1.0, 0.0]}


@pytest.mark.parametrize(
    ("column", "values", "message"),
    [
        ("item_id", [["a"], ["b"]], "expected text or whole numbers, found List"),
        ("item_id", [b"a", b"\xff"], "expected text or whole numbers, found Binary"),
        ("model", [1.0, 2.0], "found decimals"),
        ("score", [[1], [0]], "expected numbers, found List"),
        ("score", [{"a": 1}, {"a": 0}], "expected numbers, found Struct"),
        ("score", [b"1", b"0"], "expected numbers, found Binary"),
        ("benchmark", [[1], [2]], "expected text or whole numbers, found List"),
        ("text", [0.5, 1.5], "found decimals"),
        ("trials", [[1], [1]], "expected a whole number, found List"),
        ("trials", [1.5, 1.0], "expected a whole number, found 1.5"),
        ("chance", [{"a": 1}, None], "expected a number, found Struct"),
    ],
)
def test_parquet_columns(column: str, values: list[Any], message: str, tmp_path: Path) -> None:
    pl.DataFrame({**LONG, column: values}).write_parquet(tmp_path / "a.parquet")
    found = refusal(tmp_path / "a.parquet")
    assert message in found
    assert f"field '{column}'" in found


def test_parquet_columns_of_other_types(tmp_path: Path) -> None:
    made = {**LONG, "benchmark": [7, 7], "text": [1, 2], "trials": [2.0, float("nan")]}
    pl.DataFrame(made).write_parquet(tmp_path / "a.parquet")
    study = read(tmp_path / "a.parquet")
    assert study.items["item_id"].to_list() == ["7:b:1", "7:b:2"]
    assert study.items["text"].to_list() == ["1", "2"]
    assert study.responses["trials"].to_list() == [2, 1]
    odd = {"model": ["m"], "params_b": [{"a": 1}]}
    pl.DataFrame(LONG).write_parquet(tmp_path / "responses.parquet")
    pl.DataFrame(odd).write_parquet(tmp_path / "models.parquet")
    assert "field 'params_b': expected a number, found Struct" in refusal(tmp_path)
    pl.DataFrame([None]).select([]).write_parquet(tmp_path / "e.parquet")
    options = ReadOptions(wide="items-in-rows")
    assert "has no rows" in refusal(tmp_path / "e.parquet", format="tables", options=options)


def test_a_wrong_bit_in_parquet_ends_no_process(tmp_path: Path) -> None:
    """Bits like these make polars ask for an exabyte, which aborts."""
    frame = pl.DataFrame({
        "item_id": [f"b:{i:03d}" for i in range(6)] * 2,
        "model": ["m"] * 6 + ["n"] * 6,
        "score": [1.0, 0.0, 0.5, 1.0, None, 0.25] * 2,
    })  # fmt: skip
    path = tmp_path / "a.parquet"
    frame.write_parquet(path, compression="uncompressed", row_group_size=4)
    data, messages = path.read_bytes(), set[str]()
    for at in range(20, 120):
        path.write_bytes(data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :])
        try:
            read(path, format="tables")
        except InputError as error:
            messages.add(str(error).rpartition(": ")[2])
    assert "the file is damaged (reading it ended the process)" in messages
    path.write_bytes(data)
    try_out(path)
    assert read(path).responses.height == 10


# Zips


def archive(*members: tuple[str, Any], pack: int = zipfile.ZIP_STORED) -> bytes:
    buffer = io.BytesIO()
    with warnings.catch_warnings(), zipfile.ZipFile(buffer, "w", pack) as file:
        warnings.simplefilter("ignore")
        file.writestr("header.json", json.dumps(HEADER))
        for name, content in members:
            file.writestr(name, content if isinstance(content, bytes) else json.dumps(content))
    return buffer.getvalue()


def sample(key: Any, value: Any = "C") -> dict[str, Any]:
    return {"id": key, "epoch": 1, "input": "Why?", "scores": {"m": {"value": value}}}


def overlapping() -> bytes:
    """Two entries of the directory for one member."""
    data = archive(("samples/1_epoch_1.json", sample(1)))
    at = data.rindex(b"PK\x01\x02")
    end = data.index(b"PK\x05\x06")
    entry = data[at:end].replace(b"samples/1", b"samples/2")
    count, size = struct.unpack("<HI", data[end + 10 : end + 16])
    tail = data[end : end + 8] + struct.pack("<HHI", count + 1, count + 1, size + len(entry))
    return data[:end] + entry + tail + data[end + 16 :]


IN_1 = "a.eval, record samples/1.json: "


def test_names_in_zips_are_only_names(tmp_path: Path) -> None:
    names = [
        "samples/../../x.json",
        "samples//y.json",
        "samples/C:\\x.json",
        "/tmp/x",
        "../../z.json",
    ]
    members = [(n, sample(i)) for i, n in enumerate(names)]
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.eval").write_bytes(archive(*members))
    before = sorted(tmp_path.rglob("*"))
    assert read(tmp_path / "in" / "a.eval").items["source_id"].to_list() == ["0", "1", "2"]
    assert sorted(tmp_path.rglob("*")) == before


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (overlapping(), "a.eval, record samples/2_epoch_1.json: has members that overlap"),
        (archive(("samples/1.json", sample(1)))[:-30], "a.eval: is no complete zip archive"),
        (archive(("samples/1.json", b"{")), IN_1 + "is not JSON"),
        (archive(("samples/1.json", b"[" * 100_000)), IN_1 + "is nested too deeply to read"),
        (
            archive(("samples/1.json", sample(1))).replace(b"Why?", b"Who?"),
            IN_1 + "is damaged: Bad CRC-32",
        ),
        (archive(("samples/1.json", b"\xff"), pack=zipfile.ZIP_DEFLATED), IN_1 + "is not UTF-8"),
        (archive(("samples/1.json", sample([1]))), IN_1 + "expected a sample with an id"),
    ],
)  # fmt: skip
def test_zips(data: bytes, message: str, tmp_path: Path) -> None:
    (tmp_path / "a.eval").write_bytes(data)
    assert refusal(tmp_path / "a.eval").startswith(message)


def test_a_name_that_stands_twice_in_a_zip(tmp_path: Path) -> None:
    members = [("samples/1.json", sample(1, "I")), ("samples/1.json", sample(1, "C"))]
    (tmp_path / "a.eval").write_bytes(archive(*members))
    study = read(tmp_path / "a.eval")
    assert study.responses["score"].to_list() == [1.0]
    assert study.report.dropped["sample logged again later"].n == 1


def test_a_bomb(tmp_path: Path) -> None:
    bomb = io.BytesIO()
    with zipfile.ZipFile(bomb, "w", zipfile.ZIP_DEFLATED) as file:
        file.writestr("header.json", json.dumps(HEADER))
        with file.open("samples/1.json", "w", force_zip64=True) as member:
            for _ in range(300):
                member.write(b"0" * (1 << 20))
    (tmp_path / "a.eval").write_bytes(bomb.getvalue())
    assert "unpacks to 300 MiB; at most 256 are read" in refusal(tmp_path / "a.eval")


# Folders and files that are none


def fill(folder: Path) -> None:
    (folder / "a.csv").write_text(TABLE + "b:1,m,1\n")


def loop(folder: Path) -> None:
    (folder / "x").symlink_to(folder / "y")
    (folder / "y").symlink_to(folder / "x")
    (folder / "up").symlink_to(folder)
    (folder / "nowhere.csv").symlink_to(folder / "none")


def pipe(folder: Path) -> None:
    os.mkfifo(folder / "pipe.jsonl")
    os.mkfifo(folder / "responses.csv")
    (folder / "zero.json").symlink_to("/dev/zero")


def empty(folder: Path) -> None:
    for suffix in ("csv", "tsv", "json", "jsonl", "ndjson", "parquet", "eval", "txt"):
        (folder / f"e.{suffix}").touch()


def many(folder: Path) -> None:
    for i in range(10_000):
        (folder / f"{i}.json").touch()


@pytest.mark.skipif(os.name == "nt", reason="no pipes and links there")
@pytest.mark.parametrize("make", [loop, pipe, empty, many])
def test_folders(make: Callable[[Path], None], tmp_path: Path) -> None:
    fill(tmp_path)
    make(tmp_path)
    start = time.monotonic()
    study = read(tmp_path)
    assert time.monotonic() - start < 20
    assert study.items["item_id"].to_list() == ["b:1"]
    assert len(study.report.ignored) >= 3 or "folder link not followed: up" in study.report.notes


@pytest.mark.skipif(os.name == "nt", reason="no pipes there")
@pytest.mark.parametrize("format", [None, "tables", "inspect", "lm-eval", "helm"])
def test_a_pipe_is_no_source(format: str | None, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "a.json")
    assert refusal(tmp_path / "a.json", format=format).startswith("a.json: is of no known format")


@pytest.mark.skipif(os.name == "nt", reason="no pipes there")
def test_a_pipe_beside_the_records(tmp_path: Path) -> None:
    record = {"doc_id": 0, "doc": {"question": "Why?"}, "target": "x", "acc": 1.0}
    (tmp_path / "samples_t_2025-01-02T03-04-05.jsonl").write_text(json.dumps(record))
    os.mkfifo(tmp_path / "results_x.json")
    assert read(tmp_path).responses.height == 1


def test_folders_deep_inside_each_other(tmp_path: Path) -> None:
    inner = tmp_path.joinpath(*["d"] * 150)
    inner.mkdir(parents=True)
    assert refusal(tmp_path).endswith("folders inside each other, more than 100 deep")


@pytest.mark.parametrize("name", ["a\0b", "x" * 300, "x/" * 3000])
def test_names_that_no_file_has(name: str) -> None:
    with pytest.raises(InputError):
        read(name)


@pytest.mark.skipif(os.name == "nt", reason="other names there")
def test_names_that_are_not_utf8() -> None:
    with tempfile.TemporaryDirectory() as scratch:
        for name in (b"a\xff.csv", b"a\xff.parquet", b"a\xff.txt"):
            Path(os.fsdecode(os.fsencode(scratch) + b"/" + name)).write_text(TABLE + "b:1,m,1\n")
        fault = refusal(Path(scratch))
    assert fault.endswith("\\udcff.csv: has a name that is not UTF-8 (rename it)")


@pytest.mark.skipif(os.name == "nt", reason="other rights there")
@pytest.mark.parametrize("what", ["file", "folder"])
def test_no_permission(what: str) -> None:
    root = os.geteuid() == 0
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        folder.chmod(0o755)
        (folder / "in").mkdir()
        fill(folder / "in")
        (folder / "in" / "a.csv").chmod(0 if what == "file" else 0o644)
        (folder / "in").chmod(0o755 if what == "file" else 0)
        try:
            if root:
                os.seteuid(65534)
            with pytest.raises(InputError, match="cannot be read: Permission denied"):
                read(folder)
            with pytest.raises(InputError, match="cannot be read: Permission denied"):
                read(folder / "in" / "a.csv")
        finally:
            if root:
                os.seteuid(0)
            (folder / "in").chmod(stat.S_IRWXU)


# Files that change


def samples_file(folder: Path) -> Path:
    path = folder / "a_samples.jsonl"
    path.write_bytes(samples(*(b'"%d"' % i for i in range(2000))))
    return path


def array_file(folder: Path) -> Path:
    path = folder / "a.json"
    path.write_bytes(
        b"[" + samples(*(b'"%d"' % i for i in range(2000))).replace(b"\n", b",") + b"]"
    )
    return path


@pytest.mark.skipif(os.name == "nt", reason="open files stay there")
@pytest.mark.parametrize("make", [samples_file, array_file])
@pytest.mark.parametrize("change", ["cut", "grow", "delete"])
def test_a_file_that_changes_while_it_is_read(
    make: Callable[[Path], Path], change: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = make(tmp_path)
    monkeypatch.setattr(json_stream, "_CHUNK", 1000)
    respond, n = StudyBuilder.respond, 0

    def and_change(self: StudyBuilder, *given: Any, **facts: Any) -> None:
        nonlocal n
        n += 1
        if n == 5 and change == "cut":
            os.truncate(path, 1500)
        elif n == 5 and change == "delete":
            path.unlink()
        elif n == 5:
            with path.open("ab") as file:
                file.write(b"\n" + samples(b'"late"'))
        respond(self, *given, **facts)

    monkeypatch.setattr(StudyBuilder, "respond", and_change)
    assert refusal(path, format="every-eval-ever")


def test_a_file_that_is_gone_before_it_is_hashed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = samples_file(tmp_path)
    run = StudyBuilder.run

    def gone(self: StudyBuilder, *given: Any, **facts: Any) -> int:
        path.unlink(missing_ok=True)
        return run(self, *given, **facts)

    monkeypatch.setattr(StudyBuilder, "run", gone)
    assert "cannot be read: No such file" in refusal(path)


# Time


@pytest.mark.parametrize(
    "head",
    [b'{"a": "' + b'\\"' * 32_000 + b"\\", b'"' * 65_536, b"[" * 65_536, b'{"' + b"\\" * 65_535],
)
def test_outlines_take_no_time(head: bytes) -> None:
    start = time.monotonic()
    outline(head)
    assert time.monotonic() - start < 2


@pytest.mark.parametrize(
    "prompt",
    ["[Question]\n" * 90_000, "Assistant A's Conversation with User|>" + "### User:\n" * 90_000],
)
def test_prompts_take_no_time(prompt: str, tmp_path: Path) -> None:
    kind = FORMATS["mt-bench"]
    start = time.monotonic()
    read_kind(kind, put_at(kind.parts, (0, "user_prompt"), prompt), tmp_path, "mt-bench")
    assert time.monotonic() - start < 5


def test_long_tables_of_lines_take_linear_time(tmp_path: Path) -> None:
    """A list of what came before, made for each row, took minutes."""
    path = tmp_path / "a.jsonl"
    rows = ({"item_id": f"b:{i}", "model": "m", "score": i % 2} for i in range(60_000))
    lines = (json.dumps(row) + "\n" for row in rows)
    path.write_text("".join(lines))
    start = time.monotonic()
    assert read(path).responses.height == 60_000
    assert time.monotonic() - start < 12


# Reports


def test_reports_move_no_cursor(tmp_path: Path) -> None:
    record = {"question": "Why\x1b[2J?", "scores": {"m\x1b]0;x\x07\n": 1, "n": None}}
    record["task_name"] = "quiz\x1b[31m"
    (tmp_path / "a\x1b.json").write_text(json.dumps([record]))
    lines = read(tmp_path).report.lines()
    assert all(line.isprintable() for line in lines)
    assert any("\\x1b" in line for line in lines)


def test_tasks_without_samples_are_counted(tmp_path: Path) -> None:
    content = {"date": "2025", "eval": {"H/0": [{"base_status": "pass"}], "H/1": []}}
    (tmp_path / "a.json").write_text(json.dumps(content))
    options = ReadOptions(model="m", metric="base")
    report = read(tmp_path / "a.json", format="evalplus", options=options).report
    assert (report.read, report.kept, report.dropped["task without samples"].n) == (2, 1, 1)
