"""Labels from files and from an endpoint (a local stub), and what they leave as it was."""

from __future__ import annotations

import gzip
import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import polars as pl
import pytest
from tests.concepts.extract_cases import save_dictionary, save_study, some_texts

import thetascope as ts
from thetascope.cli import main
from thetascope.concepts.concept_table import is_format, token_label
from thetascope.concepts.corpus import Corpus
from thetascope.concepts.extract import extract
from thetascope.concepts.labels import read_labels
from thetascope.concepts.store import load_concepts
from thetascope.concepts.written_labels import detection_score, make_cases
from thetascope.errors import InputError


@pytest.fixture
def study(tiny_llama: Path, tmp_path: Path) -> Path:
    """Extracted with contexts and a reference."""
    folder = save_study(tmp_path / "study", [*some_texts(60)])
    extract(
        folder, model=str(tiny_llama), settings={"device": "cpu"}, contexts=True, name="c",
        dictionary=save_dictionary(tmp_path / "dictionary"),
        reference=Corpus(some_texts(30, seed=5), 0, "mine.txt"),
    )  # fmt: skip
    return folder


def test_labels_are_made_of_the_heaviest_tokens(study: Path) -> None:
    found = load_concepts(ts.open(study))
    row = found.dictionary.row(3, named=True)
    assert row["label_source"] == "tokens"
    assert row["label"] == token_label(row["tokens"])
    assert 0 < row["token_share"] <= 1
    assert row["density"] is not None


def test_a_neuronpedia_export_is_read_and_keeps_the_activations(
    study: Path, tiny_llama: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    export = tmp_path / "v1" / "tiny" / "1-res" / "explanations"
    export.mkdir(parents=True)
    rows = [{"modelId": "tiny", "layer": "1-res", "index": str(i), "description": f" about {i}\n"}
            for i in (0, 5, 7)]  # fmt: skip
    rows += [{**rows[1], "description": "second"}, {**rows[0], "index": "9", "description": None}]
    for number, part in enumerate((rows[:2], rows[2:])):
        with gzip.open(export / f"batch-{number}.jsonl.gz", "wt") as file:
            file.writelines(json.dumps(row) + "\n" for row in part)
    before = load_concepts(ts.open(study))
    assert main(["concepts", "label", str(study), "--from", str(export)]) == 0
    said = capsys.readouterr().out
    assert "1 rows are for a concept that has one" in said
    assert "1 rows are without a label" in said
    assert "the labels are of tiny, 1-res" in said
    assert "3 of 64 concepts were given a label" in said
    after = load_concepts(ts.open(study))
    assert [after.labels[i] for i in (0, 5, 7)] == ["about 0", "about 5", "about 7"]
    assert after.labels[9] == before.labels[9]
    assert after.dictionary["label_source"][5] == "neuronpedia"
    assert after.content != before.content
    assert (after.csr() != before.csr()).nnz == 0
    again = extract(
        study, model=str(tiny_llama), settings={"device": "cpu"}, contexts=True, name="c",
        dictionary=tmp_path / "dictionary", reference=Corpus(some_texts(30, seed=5), 0, "mine.txt"),
    )  # fmt: skip
    assert again.folder == after.folder, "extracting again keeps the labels"


@pytest.mark.parametrize("kind", ["csv", "parquet", "explanations"])
def test_labels_in_a_dictionarys_own_folder_are_taken(
    kind: str, tiny_llama: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    study = save_study(tmp_path / "study", [*some_texts(20)])
    dictionary = save_dictionary(tmp_path / "dictionary")
    table = pl.DataFrame({"concept": [3, 5], "label": ["cats", "dogs"]})
    place = dictionary / f"labels.{kind}"
    if kind == "csv":
        table.write_csv(place)
    elif kind == "parquet":
        table.write_parquet(place)
    else:
        place = dictionary / "explanations"
        place.mkdir()
        with gzip.open(place / "batch-0.jsonl.gz", "wt") as file:
            for concept, label in table.rows():
                row = {"modelId": "tiny", "layer": "1", "index": str(concept), "description": label}
                file.write(json.dumps(row) + "\n")
    words = ["concepts", "extract", str(study), "--model", str(tiny_llama), "--dictionary",
             str(dictionary), "--device", "cpu"]  # fmt: skip
    assert main(words) == 0
    assert f"labels from {place.name}" in capsys.readouterr().out
    found = load_concepts(ts.open(study))
    assert [found.labels[c] for c in (3, 5, 6)] == ["cats", "dogs", "concept 6"]
    sources = found.dictionary["label_source"]
    assert [sources[c] for c in (3, 5, 6)] == ["dictionary", "dictionary", None]
    assert main(words) == 0
    assert "labels are new" not in capsys.readouterr().out
    if kind != "csv":
        return
    place.write_text("concept,label\n3,lions\n")
    assert main(words) == 0
    said = capsys.readouterr().out.replace("\n", " ")
    assert "the dictionary's labels are new since these were extracted" in said
    assert load_concepts(ts.open(study)).labels[3] == "cats", "labels are never changed unasked"
    assert main(["concepts", "label", str(study), "--from", str(place)]) == 0
    capsys.readouterr()
    assert main(words) == 0
    assert "labels are new" not in capsys.readouterr().out
    assert load_concepts(ts.open(study)).labels[3] == "lions"


def test_a_dictionarys_labels_that_cannot_be_used(
    tiny_llama: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    study = save_study(tmp_path / "study", [*some_texts(5)])
    dictionary = save_dictionary(tmp_path / "dictionary")
    (dictionary / "labels.csv").write_text("concept,label\n64,x\n")
    words = ["concepts", "extract", str(study), "--model", str(tiny_llama), "--dictionary",
             str(dictionary)]  # fmt: skip
    assert main(words) == 2
    assert "labels.csv, record 1, field 'concept': the dictionary has concepts 0 to 63" in (
        capsys.readouterr().err
    )
    (dictionary / "labels.jsonl").write_text('{"concept": 1, "label": "x"}\n')
    assert main(words) == 2
    assert "holds labels in labels.csv and in labels.jsonl" in capsys.readouterr().err


def test_tables_of_labels(study: Path, tmp_path: Path) -> None:
    file = tmp_path / "labels.csv"
    file.write_text("concept,label\n3,three\n4,\n")
    assert read_labels(file, 64).of == {3: "three"}
    assert main(["concepts", "label", str(study), "--from", str(file), "--json"]) == 0
    assert load_concepts(ts.open(study)).labels[3] == "three"


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.csv", "concept,label\n64,x\n", "concepts 0 to 63, found 64"),
        ("a.csv", "concept,label\nsix,x\n", "expected a concept's number, found 'six'"),
        ("a.csv", "id,label\n1,x\n", "record 1: expected one of concept, index"),
        ("a.csv", "concept,label\n1,\n", "holds no label"),
        ("a.jsonl", "{}\n{", "expected one of concept"),
        ("a.jsonl", '{"index": 1, "label": "x"}\n{', "record 2: is not JSON"),
        ("a.jsonl", "[1]\n", "record 1: expected an object"),
        ("a.jsonl.gz", "not gzip", "is damaged"),
        ("a.txt", "x", r"expected .jsonl.gz, .jsonl, .csv or .parquet"),
    ],
)
def test_bad_files_of_labels(tmp_path: Path, name: str, content: str, message: str) -> None:
    (tmp_path / name).write_text(content)
    with pytest.raises(InputError, match=message) as caught:
        read_labels(tmp_path / name, 64)
    assert "\n" not in str(caught.value)
    assert name in str(caught.value)


class Stub(BaseHTTPRequestHandler):
    """Labels every concept 'a word', and says that it fires in the texts 1 and 2."""

    asked: list[dict] = []  # noqa: RUF012  (emptied by the fixture)
    status = 200

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        type(self).asked.append({**body, "key": self.headers["Authorization"]})
        first = "What is common" in body["messages"][0]["content"]
        answer = {"choices": [{"message": {"content": '"A word."' if first else "1, 2"}}]}
        data = json.dumps(answer).encode()
        self.send_response(self.status)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def endpoint(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    Stub.asked, Stub.status = [], 200
    server = HTTPServer(("127.0.0.1", 0), Stub)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    monkeypatch.setenv("OPENAI_API_KEY", "secret")
    monkeypatch.setattr("thetascope.llm.sending.sleep", lambda seconds: None)
    yield f"http://127.0.0.1:{server.server_port}/v1"
    server.shutdown()
    thread.join()
    server.server_close()


def test_labels_are_written_by_an_endpoint_scored_and_asked_for_once(
    study: Path, endpoint: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["concepts", "label", str(study), "--llm", "stub", "--endpoint", endpoint,
             "--concepts", "3", "--cache", str(tmp_path / "cache")]  # fmt: skip
    assert main(words) == 0
    assert "3 concepts, 6 requests, about" in capsys.readouterr().out
    assert not Stub.asked, "nothing is sent without --yes"
    assert main([*words, "--yes"]) == 0
    assert "3 of 3 labels were tested" in capsys.readouterr().out
    assert len(Stub.asked) == 6
    assert {a["key"] for a in Stub.asked} == {"Bearer secret"}
    found = load_concepts(ts.open(study))
    cases = make_cases(found, 3)
    for case in cases:
        row = found.dictionary.row(case.concept, named=True)
        assert (row["label"], row["label_source"]) == ("A word", "llm")
        assert row["label_score"] == pytest.approx(detection_score("1, 2", case.fires))
        assert not set(case.tested) & {s.replace("<<", "").replace(">>", "") for s in case.shown}
        assert sum(case.fires) == len(case.fires) / 2 == 4
    assert main([*words, "--yes"]) == 0
    assert len(Stub.asked) == 6, "answers are on disk"
    kept = "".join(p.read_text() for p in (tmp_path / "cache").iterdir())
    assert "secret" not in kept


def test_an_endpoint_that_refuses_is_one_line(
    study: Path, endpoint: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    Stub.status = 429
    words = ["concepts", "label", str(study), "--llm", "stub", "--cache", str(tmp_path / "cache"),
             "--yes"]  # fmt: skip
    assert main([*words, "--endpoint", endpoint]) == 2
    assert "answers 429" in capsys.readouterr().err
    assert main([*words, "--endpoint", "http://127.0.0.1:9"]) == 2
    assert "cannot be reached" in capsys.readouterr().err
    assert main(["concepts", "label", str(study)]) == 2
    assert "expected either --from FILE or --llm MODEL" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("answer", "score"),
    [("1, 2", 1.0), ("3, 4", 0.0), ("1,2,3,4", 0.5), ("none", 0.5), ("1", 0.75), ("9", None),
     ("the first", None)],
)  # fmt: skip
def test_the_detection_score_is_balanced_accuracy(answer: str, score: float | None) -> None:
    found = detection_score(answer, (True, True, False, False))
    assert (found != found) if score is None else found == score


def test_what_counts_as_format() -> None:
    assert [is_format(t) for t in (" ", "\n", ".", "$\\", "a", " 3")] == [True] * 4 + [False] * 2
    assert is_format("<s>", frozenset(["<s>"]))
