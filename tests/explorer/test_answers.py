"""Questions to the explorer's server: their form, and answers as `route ask` gives them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.explorer.explorer_cases import folder_hash
from tests.report.report_cases import compared, made_study

from thetascope.decisions.routing.router import make_router
from thetascope.explorer import answers as module
from thetascope.explorer.answers import Answers, Refusal, file_name, question
from thetascope.predictors.saved import fit_study
from thetascope.study import Study

DIM = 8


class Encoder:
    """In the place of a language model: a text is its length."""

    def encode(self, texts: list[str]) -> np.ndarray:
        return np.array([np.cos(np.arange(DIM) * len(t)) for t in texts], np.float32)


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A study with a kept fit that needs no torch."""
    from thetascope.predictors.knn import WeightedKNN

    folder = tmp_path_factory.mktemp("answers") / "study"
    compared(made_study(n=200, m=6), folder)
    fit_study(folder, WeightedKNN())
    return folder


@pytest.fixture
def answers(study: Path, monkeypatch: pytest.MonkeyPatch) -> Answers:
    """Answers whose router is the kept fit, and whose encoder is made."""
    monkeypatch.setattr(module, "ROUTER", "knn_weighted")
    monkeypatch.setattr(module, "encoder_for", lambda _: Encoder())
    found = Answers(Study.open(study), None, "study")
    assert "made elsewhere" in found.missing["route"].why, "and with an encoder it can:"
    del found.missing["route"]
    return found


def test_it_answers_as_the_router_does(answers: Answers, study: Path) -> None:
    before = folder_hash(study)
    assert answers.given == ("route",)
    router = make_router(Study.open(study), "knn_weighted")
    for extra in ({}, {"benchmark": "b1"}, {"candidates": ["model 2", "model 3"]}):
        found = answers.route(json.dumps({"text": "how many?", **extra}).encode())
        items = router.questions(texts=["how many?"], vectors=Encoder().encode(["how many?"]),
                                 benchmark=extra.get("benchmark"))  # fmt: skip
        expected = router.route(items, candidates=extra.get("candidates"))[0].to_json()
        assert {k: found[k] for k in expected} == expected
        assert set(found["intervals"]) == set(found["chances"])
        for model, interval in found["intervals"].items():
            if interval is not None:
                assert 0 <= interval[0] <= found["chances"][model] <= interval[1] <= 1
    assert folder_hash(study) == before


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"text": "x", "benchmark": "none"}, "benchmark"),
        ({"text": "x", "candidates": ["nobody"]}, "candidates"),
        ({"text": "x", "lambda": 1.0}, "lambda"),
    ],
)
def test_what_cannot_be_answered_says_why(answers: Answers, body: Any, field: str) -> None:
    with pytest.raises(Refusal) as refusal:
        answers.route(json.dumps(body).encode())
    assert refusal.value.field == field
    assert refusal.value.status == 422


@pytest.mark.parametrize(
    "body",
    [
        b"", b"{", b"[]", b"null", b'"x"', b"\xff", b"[" * 100_000, b"{}", b'{"text": ""}',
        b'{"text": "  "}', b'{"text": 1}', b'{"text": "x", "other": 1}',
        b'{"text": "x", "lambda": -1}', b'{"text": "x", "lambda": NaN}',
        b'{"text": "x", "lambda": Infinity}', b'{"text": "x", "lambda": true}',
        b'{"text": "x", "max_cost": "1"}', b'{"text": "x", "max_cost": 1e999}',
        b'{"text": "x", "candidates": []}', b'{"text": "x", "candidates": "m"}',
        b'{"text": "x", "candidates": [1]}', b'{"text": "x", "benchmark": 3}',
        b'{"text": "\\ud800"}', b'{"text": "' + b"x" * 20_001 + b'"}',
    ],
)  # fmt: skip
def test_a_body_of_another_form_is_refused(body: bytes) -> None:
    with pytest.raises(Refusal) as refusal:
        question(body)
    assert refusal.value.status in (400, 422)
    assert refusal.value.reason


@pytest.mark.parametrize(
    ("name", "plain"),
    [
        ("samples_gsm8k_2025-01-01T00.jsonl", "samples_gsm8k_2025-01-01T00.jsonl"),
        ("../../etc/passwd", "passwd"), ("C:\\x\\y.csv", "y.csv"), ("..", "results"),
        (".hidden", "hidden"), ("", "results"), ("/", "results"), ("a\x00b", "a_b"),
        ("x" * 500 + ".csv", "x" * 116 + ".csv"), ("naïve 🙂.csv", "na_ve__.csv"),
    ],
)  # fmt: skip
def test_a_files_name_is_never_a_path(name: str, plain: str) -> None:
    assert file_name(name) == plain
