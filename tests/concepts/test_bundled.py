"""The dictionaries that come with thetascope: what they are, and that they fit their models."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

from thetascope.concepts import (
    LanguageModel,
    LanguageModelConfig,
    check_on_texts,
    check_pair,
    lm_source,
    read_dictionary,
)
from thetascope.concepts.formats import catalogue
from thetascope.errors import InputError, MissingExtra
from thetascope.study import files

FOLDER = Path(catalogue.__file__).parents[1] / "bundled"
SHAPES = {"offline": (576, 8192, "14.output"), "offline-minilm": (384, 4096, "3.output")}
TEXTS = [
    "A baker sells 12 loaves in the morning and twice as many in the afternoon. How many is that?",
    "def area(width, height):\n    return width * height\n\nprint(area(3, 4))",
    "The river rises in the mountains and flows north to the sea.",
]


@pytest.mark.parametrize("word", sorted(SHAPES))
def test_what_they_are(word: str) -> None:
    read = read_dictionary(word)
    found = (read.info.d_in, read.info.n_latents, str(read.info.hook))
    assert found == SHAPES[word]
    assert (read.info.activation, read.info.k, read.info.prefix) == ("topk", 32, True)
    folder = FOLDER / catalogue.BUNDLED[word]
    about = files.read_json(folder / "reference.json")
    table = pl.read_parquet(folder / "reference.parquet")
    assert table["concept"].to_list() == list(range(read.info.n_latents))
    assert about["dead"] == (table["n_fired"] == 0).sum()
    assert about["dead"] < 0.01 * read.info.n_latents
    assert table["n_fired"].sum() == pytest.approx(32 * about["n_tokens"], rel=0.01)
    card = (folder / "README.md").read_text("utf-8")
    assert f"{100 * about['explained']:.1f} %" in card


def test_they_are_small() -> None:
    size = sum(f.stat().st_size for f in FOLDER.rglob("*") if f.is_file())
    assert size < 27e6


def test_tokens_are_single() -> None:
    """No sentence of the corpus is in the repository: a concept quotes single tokens."""
    for word in SHAPES:
        table = pl.read_parquet(FOLDER / catalogue.BUNDLED[word] / "reference.parquet")
        longest = table["tokens"].explode().drop_nulls().str.len_chars().max()
        assert longest is not None
        assert longest < 100  # type: ignore[operator]


def test_minilm_fits_its_model() -> None:
    try:
        lm = LanguageModel(LanguageModelConfig("offline-minilm", hook="3", device="cpu"))
    except (InputError, MissingExtra):
        pytest.skip("the offline model is not installed")
    read = read_dictionary("offline-minilm")
    assert all("tokens" in note for note in check_pair(lm, read))
    check = check_on_texts(lm, read, TEXTS)
    assert check.explained > 0.7
    assert check.l0 == pytest.approx(32, abs=0.5)
    assert not check.warnings


def test_smollm2s_files_are_its_own() -> None:
    try:
        place = lm_source.locate("offline")
    except (InputError, MissingExtra):
        pytest.skip("the offline model is not installed")
    assert read_dictionary("offline").info.model_fingerprint == lm_source.fingerprint(place)
