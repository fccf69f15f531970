from __future__ import annotations

import csv
from itertools import combinations
from pathlib import Path

import polars as pl
import pytest

from thetascope.study import Study
from thetascope.study.doctor import doctor
from thetascope.study.model_names import Rename, propose_renames, renames_table

SAME = [
    ("Meta-Llama-3.1-8B-Instruct", "llama-3.1-8b-instruct", "likely"),
    ("Llama-3.1-8B-Instruct", "meta-llama/Llama-3.1-8B-Instruct", "sure"),
    ("hf/meta-llama/Llama-3.1-8B-Instruct", "meta-llama/Llama-3.1-8B-Instruct", "likely"),
    ("gpt-4o-2024-05-13", "openai/gpt-4o-2024-05-13", "sure"),
    ("gpt-4o-2024-05-13", "GPT_4o_20240513", "sure"),
    ("claude-3-5-sonnet-20241022", "anthropic/Claude 3.5 Sonnet 2024-10-22", "sure"),
    ("Qwen2-72B-Instruct", "Qwen2-Ins-72B", "likely"),
    ("google/gemma-2-9b-it", "gemma-2-9B-instruct", "likely"),
    ("gemini-1.5-pro-002", "Gemini-Pro-1.5-002", "likely"),
    ("meta-llama/Llama-2-7b-chat-hf", "llama-2-7b-chat", "likely"),
]


@pytest.mark.parametrize(("kept", "other", "confidence"), SAME)
def test_same(kept: str, other: str, confidence: str) -> None:
    (found,) = propose_renames([kept, other])
    assert (found.model, found.canonical, found.confidence) == (other, kept, confidence)
    assert found.reason
    (back,) = propose_renames([other, kept])
    assert (back.model, back.canonical) == (kept, other)


@pytest.mark.parametrize(
    ("a", "b"),
    [
        ("Llama-3.1-8B-Instruct", "Llama-3.1-70B-Instruct"),  # size
        ("Llama-3.1-8B-Instruct", "Llama-3-8B-Instruct"),  # version
        ("Llama-3-1B", "Llama-3.1B"),
        ("qwen-2-1.5b", "qwen-2.1-5b"),
        ("qwen-1.5-2", "qwen-2-1.5"),
        ("llama-3-qwen-2", "qwen-3-llama-2"),
        ("gpt-4o-2024-05-13", "gpt-4o-2024-08-06"),  # date
        ("gpt-4o", "gpt-4o-2024-08-06"),
        ("claude-3-opus", "claude-3-opus-20240229"),
        ("Llama-3.1-8B", "Llama-3.1-8B-Instruct"),  # base and instruct
        ("Qwen-7B-Chat", "Qwen-7B-Instruct"),
        ("Yi-34B-Chat", "Yi-34B-Chat-GGUF"),  # quantisation
        ("Llama-3.1-405B-Instruct", "Llama-3.1-405B-Instruct-FP8"),
        ("Mistral-7B-v0.1", "Mistral-7B-v0.2"),
        ("EleutherAI/pythia-14m@step1000", "EleutherAI/pythia-14m"),  # revision
        ("EleutherAI/pythia-14m@step1000", "EleutherAI/pythia-14m-step1000"),
        ("llama3.1:8b", "llama-3.1-8b"),  # a tag
        ("gpt-4 (no system prompt)", "gpt-4"),  # a setting
        ("gpt-4", "gpt-4-turbo"),
        ("maker-a/model-7b", "maker-b/model-7b"),  # organisations
    ],
)
def test_apart(a: str, b: str) -> None:
    assert propose_renames([a, b]) == []


def test_a_name_without_organisation_fits_none_of_several() -> None:
    names = ["a/model-7b", "b/model-7b", "model-7b", "b/Model-7B"]
    assert [(r.model, r.canonical) for r in propose_renames(names)] == [
        ("b/Model-7B", "b/model-7b")
    ]


def test_no_name_that_is_given_up_is_kept() -> None:
    names = ["gpt4-0314", "GPT-4-0314", "openai/gpt-4-0314", "gpt4_0314"]
    found = propose_renames(names)
    assert [r.model for r in found] == names[1:]
    assert {r.canonical for r in found} == {names[0]}
    assert [r.model for r in propose_renames(names, {"gpt4_0314"})] == ["gpt4_0314"]


@pytest.mark.parametrize("names", [[], [""], ["/", "//"], ["...", "---"], ["ü", "Ü"], ["٣", "3"]])
def test_odd_names(names: list[str]) -> None:
    assert all(r.model in names for r in propose_renames(names))


def test_the_table_is_a_crosswalk() -> None:
    table = renames_table([Rename("b", "a", "sure", "case")])
    assert table.to_dicts() == [
        {"model": "b", "canonical": "a", "confidence": "sure", "reason": "case"}
    ]
    assert renames_table([]).columns == ["model", "canonical", "confidence", "reason"]


def test_real_names(shared: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Against pairs judged by hand; there, unlike here, a quantised model is the same model."""
    canonical = {}
    with (shared / "data" / "model_crosswalk.csv").open(encoding="utf-8") as file:
        canonical = {row["model"]: row["canonical"] for row in csv.DictReader(file)}
    true = {
        frozenset(pair)
        for pair in combinations(canonical, 2)
        if canonical[pair[0]] == canonical[pair[1]]
    }
    groups: dict[str, list[str]] = {}
    for proposal in propose_renames(list(canonical)):
        groups.setdefault(proposal.canonical, [proposal.canonical]).append(proposal.model)
    found = {frozenset(pair) for group in groups.values() for pair in combinations(group, 2)}
    precision, recall = len(found & true) / len(found), len(found & true) / len(true)
    with capsys.disabled():
        print(
            f"\n{len(canonical)} names: precision {precision:.2f} ({len(found & true)} of"
            f" {len(found)} pairs), recall {recall:.2f} (of {len(true)})"
        )
    assert precision == 1.0
    assert recall >= 0.6


def test_the_doctor_shows_twins() -> None:
    rows = [("quiz:1", m, 1.0) for m in ("maker/Model-7B", "model-7b", "model-70b")]
    study = Study.from_tables(
        pl.DataFrame(rows, schema=["item_id", "model", "score"], orient="row")
    )
    finding = next(f for f in doctor(study) if f.check == "model names")
    assert (finding.level, finding.n, finding.total) == ("warning", 1, 3)
    assert finding.examples == [
        "model-7b -> maker/Model-7B (sure: the organisation stands in one of them;"
        " case or separators differ)"
    ]
