"""Probes: axes from two sets of items, and the words that name sets."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from tests.space.space_cases import planted_space

from thetascope.errors import InputError
from thetascope.space import probe
from thetascope.space.item_sets import item_set
from thetascope.space.probes import difference_axis


def test_an_axis_by_hand() -> None:
    x = np.array([[1.0, 0], [3.0, 0], [0, 2.0], [0, 2.0]])
    positive = np.array([True, True, False, False])
    assert difference_axis(x, positive, ~positive) == pytest.approx(
        np.array([2.0, -2.0]) / np.sqrt(8)
    )


def test_topics_are_told_apart_and_random_labels_are_not() -> None:
    space, _, topic = planted_space(n=400)
    found = probe(space, topic == 0, topic == 1, np.arange(400))
    assert found.separation.space.value > 0.98
    assert found.held_out == "five folds"
    mixed = np.random.default_rng(0).random(400) < 0.5
    chance = probe(space, mixed, ~mixed, np.arange(400)).separation.space
    assert chance.low < 0.5 < chance.high  # not below one half either: folds do not lean
    assert abs(chance.value - 0.5) < 0.08


def test_held_out_labels_never_shape_the_axis() -> None:
    space, _, topic = planted_space(n=400)
    later = np.arange(400) % 2 == 1
    sets = (topic == 0) & ~later, (topic == 1) & ~later
    labels = (topic == 0) & later, (topic == 1) & later
    found = probe(space, *sets, np.arange(400), labels=labels)
    assert found.held_out == "given"
    assert (found.separation.n_positive, found.separation.n_negative) == (
        labels[0].sum(), labels[1].sum()
    )  # fmt: skip
    turned = replace(space, direction=np.where(later[:, None], -space.direction, space.direction))
    assert probe(turned, *sets, np.arange(400), labels=labels).axis == pytest.approx(found.axis)


def test_near_duplicates_of_the_sets_are_not_tested_on() -> None:
    space, _, topic = planted_space(n=400)
    later = np.arange(400) % 2 == 1
    group = np.arange(400)
    group[later] = np.arange(400)[later] - 1  # every odd item repeats the even one before it
    with pytest.raises(InputError, match="held-out positive set holds 0 items"):
        probe(space, (topic == 0) & ~later, (topic == 1) & ~later, group,
              labels=((topic == 0) & later, (topic == 1) & later))  # fmt: skip


def test_models_stand_where_their_ability_points() -> None:
    space, _, topic = planted_space()
    found = probe(space, topic == 2, topic == 3, np.arange(len(topic)))
    gap = (space.ability - space.ability.mean(axis=0)) @ found.axis
    assert [m for m, *_ in found.models] == [space.models[i] for i in np.argsort(-gap)]
    assert all(low <= value <= high for _, value, low, high in found.models)
    assert found.projection == pytest.approx(space.direction @ found.axis)


def test_sets_are_checked() -> None:
    space, _, topic = planted_space()
    few = np.zeros(len(topic), bool)
    few[:3] = True
    with pytest.raises(InputError, match="positive set holds 3 items"):
        probe(space, few, topic == 1, np.arange(len(topic)))
    with pytest.raises(InputError, match="is in both sets"):
        probe(space, topic == 0, topic <= 1, np.arange(len(topic)))


@pytest.fixture
def items() -> pl.DataFrame:
    return pl.DataFrame(
        {
            "item_id": [f"a:{i}" for i in range(6)],
            "benchmark": ["a"] * 6,
            "subject": ["law", "law", "maths", "maths", "law, old", None],
            "text": ["Who sues?", "What is 3 + 4?", "Add 3", None, "x", "12 apples"],
        }
    )


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("subject:law", [0, 1]),
        ("subject:law,maths", [0, 1, 2, 3]),
        ("subject:law, old", [4]),
        ("benchmark:a", [0, 1, 2, 3, 4, 5]),
        (r"text:\d", [1, 2, 5]),
        ("text:WHO", [0]),
        (r"subject:law & text:\d", [1]),
        (r"subject:law & !text:\d", [0]),
        ("!subject:law", [2, 3, 4, 5]),
    ],
)
def test_words_name_sets(items: pl.DataFrame, words: str, expected: list[int]) -> None:
    assert np.flatnonzero(item_set(items, words)).tolist() == expected


def test_files_name_sets(items: pl.DataFrame, tmp_path: Path) -> None:
    ids = tmp_path / "ids.txt"
    ids.write_text("a:1\n\n a:4 \n")
    assert np.flatnonzero(item_set(items, f"ids:{ids}")).tolist() == [1, 4]
    csv = tmp_path / "labels.csv"
    csv.write_text("item_id,kind\na:0,q\na:2,w\na:3,q\n")
    assert np.flatnonzero(item_set(items, f"csv:{csv}:kind=q")).tolist() == [0, 3]


@pytest.mark.parametrize(
    ("words", "what"),
    [
        ("law", "expected one of subject:"),
        ("subject:", "expected one of subject:"),
        ("topic:law", "found 'topic:law'"),
        ("subject:physics", "no subject 'physics'; there are law, law, old, maths"),
        ("text:(", "no regular expression"),
        ("ids:/no/such", "cannot be read"),
        ("csv:x.csv", "expected csv:FILE:COLUMN=VALUE"),
    ],
)
def test_words_that_say_nothing(items: pl.DataFrame, words: str, what: str) -> None:
    with pytest.raises(InputError, match=what):
        item_set(items, words)


def test_files_that_say_nothing(items: pl.DataFrame, tmp_path: Path) -> None:
    ids = tmp_path / "ids.txt"
    ids.write_text("a:1\nnone:9\n")
    with pytest.raises(InputError, match="1 of 2 ids are not in the study, first 'none:9'"):
        item_set(items, f"ids:{ids}")
    csv = tmp_path / "labels.csv"
    csv.write_text("item,kind\na:0,q\n")
    with pytest.raises(InputError, match="has no column 'item_id'"):
        item_set(items, f"csv:{csv}:kind=q")
    csv.write_text("item_id,kind\na:0,q\n")
    with pytest.raises(InputError, match="no row where kind is 'z'"):
        item_set(items, f"csv:{csv}:kind=z")
    with pytest.raises(InputError, match="have no subject"):
        item_set(items.drop("subject"), "subject:law")
