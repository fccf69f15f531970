"""Texts of common data sets' rows, and what they share."""

from __future__ import annotations

from typing import Any

import polars as pl
import pytest

from thetascope.readers.texts import common_prefix, doc_text, shared_texts, with_options

DOCS: dict[str, tuple[dict[str, Any], str]] = {
    "mmlu": (
        {"question": "Q?", "subject": "law", "choices": ["a1", "b1"], "answer": 1},
        "Q?\nA. a1\nB. b1",
    ),
    "arc": (
        {"id": "x", "question": "Q?", "choices": {"text": ["a1", "b1"], "label": ["A", "B"]}},
        "Q?\nA. a1\nB. b1",
    ),
    "hellaswag": (
        {"ctx_a": "x", "ctx": "A man", "query": "Run: A man", "choices": ["runs", "sits"]},
        "Run: A man\nA. runs\nB. sits",
    ),
    "hellaswag raw": ({"ctx": "A man", "endings": ["runs"]}, "A man\nA. runs"),
    "winogrande": (
        {"sentence": "_ fell.", "option1": "Ann", "option2": "Bob", "answer": "1"},
        "_ fell.\nA. Ann\nB. Bob",
    ),
    "truthfulqa": (
        {"question": "Q?", "mc1_targets": {"choices": ["a1", "b1"], "labels": [1, 0]}},
        "Q?\nA. a1\nB. b1",
    ),
    "gsm8k": ({"question": "Q?", "answer": "4", "five_shot_preprompt": "no" * 99}, "Q?"),
    "piqa": ({"goal": "G", "sol1": "s1", "sol2": "s2", "label": 0}, "G\nA. s1\nB. s2"),
    "boolq": ({"question": "q", "passage": "P.", "idx": 1, "label": 1}, "P.\nq"),
    "ifeval": ({"key": 1, "prompt": "Write.", "instruction_id_list": []}, "Write."),
    "mbpp": ({"task_id": 2, "text": "Sort.", "code": "def"}, "Sort."),
    "humaneval": ({"task_id": "H/0", "prompt": "def f():", "test": ""}, "def f():"),
    "bbh": ({"input": "not True is", "target": "False"}, "not True is"),
    "math": ({"problem": "1+1?", "level": "1", "type": "Algebra", "solution": ""}, "1+1?"),
    "gpqa": (
        {"Question": "Q?", "choice1": "a1", "choice2": "b1", "choice3": "c1", "choice4": "d1"},
        "Q?\nA. a1\nB. b1\nC. c1\nD. d1",
    ),
    "mathqa": ({"Problem": "P?", "options": "a ) 1 , b ) 2"}, "P?\na ) 1 , b ) 2"),
    "sciq": (
        {
            "support": "S.",
            "question": "Q?",
            "distractor1": "d1",
            "distractor2": "d2",
            "distractor3": "d3",
            "correct_answer": "c",
        },
        "S.\nQ?\nA. d1\nB. d2\nC. d3\nD. c",
    ),
    "rte": ({"sentence1": "One.", "sentence2": "Two."}, "One.\nTwo."),
    "nli": ({"premise": "P.", "hypothesis": "H."}, "P.\nH."),
    "options in the question": ({"question": "a1 or b1?", "choices": ["a1", "b1"]}, "a1 or b1?"),
}


@pytest.mark.parametrize("name", DOCS)
def test_known_fields(name: str) -> None:
    doc, text = DOCS[name]
    made = doc_text(doc)
    assert made is not None
    assert made[0] == text


@pytest.mark.parametrize("doc", [None, "text", {}, {"x": "y"}, {"question": "  "}, {"question": 4}])
def test_unknown_fields(doc: Any) -> None:
    assert doc_text(doc) is None


def test_many_options_are_numbered() -> None:
    assert with_options("Q", [f"o{i}" for i in range(27)]).endswith("\n27. o26")


@pytest.mark.parametrize(
    ("one", "other", "common"),
    [("", "", ""), ("a", "", ""), ("ab", "ab", "ab"), ("abc", "abd", "ab"), ("xa", "ya", "")],
)
def test_common_prefix(one: str, other: str, common: str) -> None:
    assert common_prefix(one, other) == common_prefix(other, one) == common


def test_shared_texts_are_found_at_both_ends() -> None:
    table = pl.DataFrame(
        {
            "benchmark": ["same"] * 3 + ["free"] * 3,
            "text": [f"{'x' * 20}{w}{'y' * 20}" for w in "abc"] + ["one", "two", "three"],
        }
    )
    found = list(shared_texts(table))
    assert len(found) == 1
    assert found[0].startswith("the texts of same share 98% of their length")
