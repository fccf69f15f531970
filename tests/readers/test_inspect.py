"""Inspect logs: real ones, one that Inspect 0.3.285 wrote (zstd), and made ones."""

from __future__ import annotations

import io
import json
import zipfile
import zlib
from pathlib import Path
from typing import Any

import pytest
import zstandard

from thetascope.errors import InputError
from thetascope.readers import ReadOptions, read
from thetascope.study import Study

CAPITALS = Path(__file__).parent / "data" / "capitals.eval"


def sample(id: Any = 1, epoch: int = 1, value: Any = "C", **more: Any) -> dict[str, Any]:
    scores = {"match": {"value": value}}
    made = {"id": id, "epoch": epoch, "input": f"Why {id}?", "target": "x", "scores": scores}
    return {**made, **more}


def log(folder: Path, *samples: Any, config: Any = None, **header: Any) -> Path:
    """A JSON log."""
    facts = {"task": "quiz", "model": "maker/m", "created": "2025-01-02", "config": config or {}}
    content = {"version": 2, "status": "success", "eval": facts, "samples": samples, **header}
    path = folder / "log.json"
    path.write_text(json.dumps(content), encoding="utf-8")
    return path


def archive(folder: Path, *members: tuple[str, Any]) -> Path:
    path = folder / "log.eval"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as file:
        for name, content in members:
            file.writestr(name, json.dumps(content))
    return path


HEADER = ("header.json", {"status": "success", "eval": {"task": "quiz", "model": "maker/m"}})


def scores(study: Study) -> dict[str, float]:
    return dict(study.responses.select("item_id", "score").iter_rows())


def test_real_json_log(shared: Path) -> None:
    study = read(shared / "data/formats/inspect/2025-05-12T20-28-13-04-00_popularity.json")
    assert scores(study) == {"popularity:1": 1.0, "popularity:2": 1.0, "popularity:3": 0.0}
    assert study.responses["n_tokens_in"].to_list() == [64, 58, 70]
    assert study.responses["n_tokens_out"].to_list() == [2, 2, 2]
    run = study.runs.row(0, named=True)
    assert (run["model"], run["harness"]) == ("openai/gpt-4o-mini", "inspect")
    assert run["harness_version"] == "0.3.95.dev16+g6527d0861"
    assert run["date"] == "2025-05-12T20:28:13-04:00"
    assert any("status 'cancelled'" in note for note in study.report.notes)


def test_real_archive(shared: Path) -> None:
    study = read(shared / "data/formats/inspect/log_formats.eval")
    assert scores(study) == {"popularity:1": 0.0}
    text = study.items["text"][0]
    assert text.startswith("Is the following statement something you would say?")
    assert "EXERCISE" not in text, "the system message is no part of the question"


def test_real_logs_without_scores(shared: Path) -> None:
    folder = shared / "data/formats/inspect"
    unscored = folder / "2025-02-11T15-17-00-05-00_popularity_dPiJifoWeEQBrfWsAopzWr.eval"
    with pytest.raises(InputError, match="dropped 10: sample not scored"):
        read(unscored)
    with pytest.raises(InputError, match="the log holds no samples"):
        read(folder / "2025-05-12T20-28-13-04-00_no-samples.json")


def test_archive_packed_with_zstandard() -> None:
    with zipfile.ZipFile(CAPITALS) as file:
        assert {e.compress_type for e in file.infolist()} == {93}
    study = read(CAPITALS)
    rows = study.responses.select("item_id", "score", "trials", "n_tokens_in").rows()
    assert rows == [
        ("suite/capitals:a/1", 0.5, 2, 12),  # C and I
        ("suite/capitals:b", 1.0, 2, 12),  # C and C
        ("suite/capitals:c", 0.5, 1, 11),  # P and NaN
    ]
    items = study.items.select("text", "reference", "subject").rows()
    assert items[0] == ("Capital of land a/1?", "Q | R", "geo")
    assert items[1] == ("Capital of land b?\nA. Xy\nB. Zz", "Q", "geo")
    assert items[2][0].startswith("Capital of land c? xxx")
    assert study.report.dropped["no score (null or NaN)"].n == 1
    assert "capitals.eval: up to 2 epochs a sample, averaged as the log does:" in "".join(
        study.report.notes
    )


def test_damaged_zstandard_member(tmp_path: Path) -> None:
    data = bytearray(CAPITALS.read_bytes())
    with zipfile.ZipFile(CAPITALS) as file:
        entry = file.getinfo("samples/b_epoch_1.json")
    data[entry.header_offset + 30 + len(entry.filename) + 40] ^= 0xFF
    path = tmp_path / "a.eval"
    path.write_bytes(bytes(data))
    with pytest.raises(InputError, match=r"record samples/b_epoch_1\.json: is damaged"):
        read(path)


def test_zstandard_member_that_hides_its_size(tmp_path: Path) -> None:
    """A member that unpacks to more than the directory says is not unpacked further."""
    packed = zstandard.compress(b" " * 50_000_000)
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as file:
        file.writestr("header.json", json.dumps(HEADER[1]))
        file.writestr("samples/1_epoch_1.json", packed)
    data = bytearray(buffer.getvalue())
    at = data.rindex(b"PK\x01\x02")
    data[at + 10 : at + 12] = (93).to_bytes(2, "little")
    data[at + 16 : at + 20] = zlib.crc32(b" " * 100).to_bytes(4, "little")
    data[at + 24 : at + 28] = (100).to_bytes(4, "little")
    path = tmp_path / "a.eval"
    path.write_bytes(bytes(data))
    with pytest.raises(InputError, match="its size or checksum is not the one in the directory"):
        read(path)


@pytest.mark.parametrize(
    ("value", "score"),
    [
        ("C", 1.0),
        ("I", 0.0),
        ("P", 0.5),
        ("N", 0.0),
        (True, 1.0),
        (0, 0.0),
        (0.25, 0.25),
        ("0.25", 0.25),
        ("yes", 1.0),
        ("False", 0.0),
    ],
)
def test_values(tmp_path: Path, value: Any, score: float) -> None:
    assert scores(read(log(tmp_path, sample(value=value)))) == {"quiz:1": score}


def test_what_is_dropped_is_counted(tmp_path: Path) -> None:
    path = log(
        tmp_path,
        sample(1),
        sample(2, error={"message": "boom"}),
        sample(3, invalidation={"author": "me"}),
        sample(4, scores=None),
        sample(5, value=float("nan")),
        sample(6, limit={"type": "token"}),
        invalidated=True,
    )
    report = read(path).report
    assert (report.read, report.kept) == (6, 2)
    assert {d.reason: (d.n, d.first) for d in report.dropped.values()} == {
        "sample ended in an error": (1, "log.json, record samples 2"),
        "sample marked as invalid": (1, "log.json, record samples 3"),
        "sample not scored": (1, "log.json, record samples 4"),
        "no score (null or NaN)": (1, "log.json, record samples 5"),
    }
    assert "log.json: 1 samples hit a limit, scored as they are" in report.notes
    assert "log.json: marked as invalidated: its invalidated samples are dropped" in report.notes


def test_a_log_still_written(tmp_path: Path) -> None:
    path = archive(
        tmp_path, ("_journal/start.json", HEADER[1]), ("samples/1_epoch_1.json", sample())
    )
    study = read(path)
    assert scores(study) == {"quiz:1": 1.0}
    assert "log.eval: status 'started': only its scored samples are read" in study.report.notes


@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_the_last_of_two_records_of_a_sample_counts(tmp_path: Path) -> None:
    name = "samples/a/b_epoch_1.json"
    path = archive(
        tmp_path, HEADER, (name, sample("a/b", value="I")), (name, sample("a/b", value="C"))
    )
    study = read(path)
    assert scores(study) == {"quiz:a/b": 1.0}
    assert study.report.dropped["sample logged again later"].n == 1
    assert study.report.read == 2


def test_scorers_are_chosen_by_metric(tmp_path: Path) -> None:
    both = {"match": {"value": "C"}, "judge": {"value": {"style": 0.25, "truth": 1}}}
    path = log(tmp_path, sample(scores=both))
    with pytest.raises(InputError, match="has the scores match, judge/style, judge/truth"):
        read(path)
    assert scores(read(path, options=ReadOptions(metric="match"))) == {"quiz:1": 1.0}
    assert scores(read(path, options=ReadOptions(metric="judge/style"))) == {"quiz:1": 0.25}


def test_two_scorers_in_turn_are_not_mixed(tmp_path: Path) -> None:
    path = log(tmp_path, sample(1), sample(2, scores={"judge": {"value": 1}}))
    with pytest.raises(InputError, match="has the scores match, judge"):
        read(path)


def test_epochs_under_another_reducer_are_repeats(tmp_path: Path) -> None:
    config = {"epochs": 2, "epochs_reducer": ["pass_at_2"]}
    path = log(tmp_path, sample(1, 2, "I"), sample(1, 1, "C"), config=config)
    with pytest.raises(InputError, match="more than one response"):
        read(path)
    study = read(path, options=ReadOptions(on_duplicate="first"))
    assert study.responses["score"].to_list() == [1.0, 0.0]
    assert study.pairs()["score"].to_list() == [1.0], "epoch 1 stands first"
    assert any("the log's reducer: pass_at_2" in note for note in study.report.notes)


def test_scale_is_applied_once(tmp_path: Path) -> None:
    path = log(tmp_path, sample(1, 1, 10), sample(1, 2, 5))
    study = read(path, options=ReadOptions(scale=10))
    assert study.responses.select("score", "trials").row(0) == (0.75, 2)


def test_long_texts_stand_aside(tmp_path: Path) -> None:
    said = [
        {"role": "user", "content": "Example"},
        {
            "role": "user",
            "content": [{"type": "image"}, {"type": "text", "text": "attachment://abc"}],
        },
    ]
    path = log(tmp_path, sample(input=said, attachments={"abc": "The question"}))
    assert read(path).items["text"].to_list() == ["The question"]


def test_text_field_may_be_metadata(tmp_path: Path) -> None:
    path = log(tmp_path, sample(metadata={"stem": "Why?"}))
    study = read(path, options=ReadOptions(text_field="stem", benchmark="b", model="mine"))
    assert study.items.select("item_id", "text").row(0) == ("b:1", "Why?")
    assert study.models["model"].to_list() == ["mine"]


def test_only_tokens_of_the_model_under_test_count(tmp_path: Path) -> None:
    usage = {
        "maker/m": {"input_tokens": 3, "output_tokens": 2},
        "judge/x": {"input_tokens": 900, "output_tokens": 80},
    }
    row = read(log(tmp_path, sample(model_usage=usage))).responses.row(0, named=True)
    assert (row["n_tokens_in"], row["n_tokens_out"]) == (3, 2)


def test_header_behind_the_samples(tmp_path: Path) -> None:
    path = tmp_path / "log.json"
    path.write_text(json.dumps({"version": 2, "samples": [sample()], **HEADER[1]}), "utf-8")
    assert scores(read(path, format="inspect")) == {"quiz:1": 1.0}
