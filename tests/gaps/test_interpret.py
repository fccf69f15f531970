"""Interpretations: nothing in them that is not in the findings, and evidence for every sentence."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.llm_server import Server, serving

from thetascope.cli import main
from thetascope.demo.demo import STUDY
from thetascope.errors import InputError
from thetascope.gaps.facts import Fact
from thetascope.gaps.grouping_saved import load_groups
from thetascope.gaps.interpret import (
    checked,
    figures_in,
    interpret_question,
    interpret_study,
    load_interpretation,
    plain,
    written,
)
from thetascope.gaps.saved import load_gaps
from thetascope.llm import Endpoint, sending
from thetascope.study import Study

MODEL = "gpt-4o-mini-2024-07-18"
NAMES = ["gpt-4o-2024", "gsm8k"]
FINDINGS = [
    Fact("F1", "model", "gpt-4o-2024 scores 84.1 % on 3,352 items.", "gpt-4o-2024"),
    Fact("F2", "concept", "It is weak on concept 7 by 5.6 points (q = 0.0014), on 184 items.",
         "gpt-4o-2024", 7, None, ("gsm8k:1",)),
]  # fmt: skip


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    monkeypatch.setattr(sending, "sleep", lambda seconds: None)
    with serving(lambda question, body: "{}") as running:
        yield running


def endpoint(server: Server, folder: Path) -> Endpoint:
    return Endpoint(server.url, "m", folder / "answers", timeout=10.0)


def check(*rows: tuple[str, list[str]]) -> Any:
    return checked(rows, FINDINGS, [*NAMES, "concept 7"], "m")


@pytest.mark.parametrize(
    ("text", "figures"),
    [("84.1 % of 3,352, q = 0.0014", {84.1, 3352, 0.0014}), ("q = 8.6e-05", {8.6e-05}),
     ("gpt-4o-2024 on gsm8k, see F2", set()), ("half of two dozen", {0.5, 2, 12})],
)  # fmt: skip
def test_figures_are_found(text: str, figures: set[float]) -> None:
    assert figures_in(text, NAMES, words=True) == figures


def test_what_rests_on_findings_is_kept() -> None:
    said = check(("gpt-4o-2024 is weak there by 5.6 points.", ["F2"]),
                 ("It scores 84.1 % and loses 5.6 on 184 items.", ["F1", "F2", "F2"]))  # fmt: skip
    assert said.by == "m"
    assert [e for _, e in said.sentences] == [("F2",), ("F1", "F2")]
    assert said.struck == said.dropped == ()


@pytest.mark.parametrize(
    ("text", "cited"),
    [("It loses 5.7 points.", ["F2"]), ("It loses 6 points.", ["F2"]),
     ("It scores 84.1 %.", ["F2"]), ("It fails on half of them.", ["F2"]),
     ("It loses 56 points.", ["F1", "F2"]), ("Version 1.2.3 is weak.", ["F1"])],
    ids=["another", "rounded", "not in what it cites", "in words", "point lost", "no figure"],
)  # fmt: skip
def test_a_strange_figure_makes_the_text_unusable(text: str, cited: list[str]) -> None:
    said = check(("gpt-4o-2024 is weak.", ["F1"]), (text, cited))
    assert said.by == "findings"
    assert [t for t, _ in said.sentences] == [f.text for f in FINDINGS]
    assert said.why is not None
    assert "figures that are not in the findings" in said.why


def test_citations_of_nothing_are_struck_out() -> None:
    said = check(("It is weak (F9).", ["F2", "F9", "gsm8k:1"]), ("It is bad.", ["F77"]),
                 ("It is worse.", []))  # fmt: skip
    assert said.sentences == (("It is weak .", ("F2",)),)
    assert said.struck == ("F9", "gsm8k:1", "F77")
    assert said.dropped == ("It is bad.", "It is worse.")


def test_nothing_left_is_the_findings() -> None:
    assert check(("It is bad.", ["F9"])).by == "findings"


@pytest.mark.parametrize(
    "fault", [("say", "no"), ("say", '{"sentences": []}'), ("say", '{"sentences": [{"text": 3}]}'),
              "malformed", "length"],
)  # fmt: skip
def test_an_unusable_answer_is_the_findings(server: Server, tmp_path: Path, fault: Any) -> None:
    server.faults = [fault] * 20
    said = written(endpoint(server, tmp_path), FINDINGS, NAMES)
    assert said.sentences == plain(FINDINGS).sentences
    assert said.why


@pytest.fixture(scope="module")
def bundled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("interpreted") / "study"
    shutil.copytree(STUDY, folder)
    assert main(["gaps", str(folder), "--model", MODEL]) == 0
    return folder


def test_findings_are_the_kept_figures(bundled: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command = ["concepts", "group", str(bundled), "--model", MODEL, "--interpret"]
    assert main(command) == 0
    said = capsys.readouterr().out
    study = Study.open(bundled)
    kept = load_interpretation(study, "offline")
    assert kept["by"] == "findings"
    assert kept["with_groups"]
    gaps = load_gaps(study)
    for fact in kept["findings"]:
        assert fact["text"] in said
        if fact["kind"] == "concept":
            row = gaps.list(MODEL).filter(concept=fact["concept"]).row(0, named=True)
            assert row["q_low"] < 0.05
            assert f"by {-100 * row['shrunk']:.1f} points" in fact["text"]
            assert f"on {row['n_active']:,} items" in fact["text"]
            assert set(fact["items"]) <= set(study.items["item_id"])
            assert f"--card {fact['concept']}" in said
        if fact["kind"] == "group":
            rows = load_groups(study).performance.filter(
                model=MODEL, scope="all", group=fact["group"]
            )
            assert rows["q_low"][0] < 0.05
    kinds = [f["kind"] for f in kept["findings"]]
    assert {"model", "concept", "detectable", "missing"} <= set(kinds)


def test_a_model_writes_it_and_is_checked(
    bundled: Path, server: Server, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def answer(question: str, body: dict[str, Any]) -> str:
        first = re.search(r"^F1\. (.*)$", question, re.MULTILINE)
        assert first is not None
        return json.dumps({"sentences": [{"text": first[1], "evidence": ["F1", "F999"]}]})

    server.answer = answer
    study = Study.open(bundled)
    asked = endpoint(server, tmp_path)
    with pytest.raises(InputError, match="no item's text or id, would be sent"):
        interpret_study(bundled, endpoint=asked)
    assert server.seen == []
    interpret_study(bundled, endpoint=asked, yes=True)
    kept = load_interpretation(study, "offline")
    assert kept["by"] == "m"
    assert kept["sentences"] == [{"text": kept["findings"][0]["text"], "evidence": ["F1"]}]
    assert kept["struck"] == ["F999"]
    sent = json.dumps(server.seen)
    assert not any(json.dumps(i)[1:-1] in sent for i in study.items["item_id"].to_list())
    server.answer = lambda question, body: json.dumps(
        {"sentences": [{"text": "It loses 1234.5 points.", "evidence": ["F1"]}]}
    )
    interpret_study(bundled, endpoint=Endpoint(server.url, "n", tmp_path), yes=True)
    kept = load_interpretation(study, "offline")
    assert kept["by"] == "findings"
    assert "1234.5" in kept["why"]
    assert interpret_question(FINDINGS).count("F2. ") == 1


def test_without_gaps_it_says_how(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shutil.copytree(STUDY, tmp_path / "s")
    assert main(["concepts", "group", str(tmp_path / "s"), "--interpret"]) == 2
    error = capsys.readouterr().err
    assert "thetascope gaps" in error
    assert len(error.strip().splitlines()) == 1
    with pytest.raises(InputError, match="the study has no gaps"):
        load_gaps(Study.open(tmp_path / "s"))
