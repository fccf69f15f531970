"""Tokens in one array, and the hash of a study's texts that is worked out piece by piece."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from tests.concepts.extract_cases import save_study

import thetascope as ts
from thetascope.concepts.reading_plan import study_texts, texts_hash
from thetascope.concepts.tokens import Rows
from thetascope.study import files


def test_rows_are_the_arrays_that_went_in() -> None:
    rng = np.random.default_rng(0)
    arrays = [rng.integers(0, 9, size) for size in (3, 0, 5, 1)]
    first, second = Rows.of(arrays[:2], np.int32), Rows.of(arrays[2:], np.int32)
    for rows in (Rows.of(arrays, np.int32), Rows.joined([first, second], np.int32)):
        assert len(rows) == 4
        assert rows.flat.dtype == np.int32
        for mine, array in zip(rows, arrays, strict=True):
            np.testing.assert_array_equal(mine, array)
        np.testing.assert_array_equal(rows[-1], arrays[-1])
        assert [len(r) for r in rows[1:3]] == [0, 5]
        with pytest.raises(IndexError):
            rows[4]
    assert len(Rows.joined([], np.int32)) == len(Rows.of([], bool)) == 0


@pytest.mark.parametrize("texts", [["a", None, 'é "quoted" \\ 猫\U0001f600', "  "], ["one"] * 600])
def test_the_hash_of_texts_is_that_of_their_json(texts: list[str | None], tmp_path: Path) -> None:
    study = ts.open(save_study(tmp_path / "study", texts))
    whole = [study.items["item_id"].to_list(), study_texts(study)]
    assert texts_hash(study) == files.hash_json(whole)
