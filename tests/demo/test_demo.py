"""The bundled study: real figures, no text of others; and the whole pass on it."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from thetascope.cli import main
from thetascope.demo import bundled_study, run_demo
from thetascope.demo.demo import STUDY
from thetascope.encoders import load_vectors
from thetascope.errors import InputError
from thetascope.readers import read
from thetascope.study import Study
from thetascope.study.doctor import doctor


def test_the_bundled_study_is_whole_and_holds_no_text() -> None:
    study = Study.open(STUDY)
    assert (study.n_items, study.n_models, study.responses.height) == (3352, 56, 133_498)
    assert study.items.columns == [
        "item_id", "source_id", "benchmark", "subject", "text_hash", "n_tokens",
    ]  # fmt: skip
    damaged = next(f for f in doctor(study) if f.check == "damaged files")
    assert damaged.level == "ok", damaged.examples
    vectors = load_vectors(study)
    assert vectors.dim == 384
    assert vectors.has.all()
    assert np.allclose(np.linalg.norm(vectors.vectors, axis=1), 1, atol=1e-2)


def test_the_bundled_study_is_what_its_source_says(shared: Path) -> None:
    """Every score and text hash, against the real files."""
    source, bundled = read(shared / "data" / "zeroeval"), Study.open(STUDY)
    assert bundled.responses.equals(source.responses)
    assert bundled.models.equals(source.models)
    columns = ["item_id", "benchmark", "subject", "text_hash"]
    assert bundled.items.select(columns).equals(source.items.select(columns))


def test_a_copy_is_made_once_and_nothing_else_is_touched(tmp_path: Path) -> None:
    folder = bundled_study(tmp_path / "s")
    (folder / "mine.txt").write_text("kept")
    assert bundled_study(folder) == folder
    assert (folder / "mine.txt").read_text() == "kept"
    (tmp_path / "other").mkdir()
    (tmp_path / "other/thesis.tex").write_text("x")
    with pytest.raises(InputError, match="is there and is no study"):
        bundled_study(tmp_path / "other")


@pytest.mark.timeout(600)
def test_the_whole_pass(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["demo", "--to", str(tmp_path / "d"), "--seeds", "1"]) == 0
    out = capsys.readouterr().out
    for part in (
        "56 models, 3,352 items of 4 benchmarks, 133,498 responses",
        "The two strongest models by their mean over cruxeval_o, gsm8k, math_l5; here every item",
        "Who gets what right, on items never seen",
        "model_benchmark  accuracy",
        "What is tested, by 8,183 concepts of a small open model:",
        "models are weak on a concept in 1,138 cases (q < 0.05)",
        "Suspect items: 93 of 2,867 items",
        "What this data cannot tell: one run a pair, so run-to-run noise is in no interval;"
        " only 9 of 56 models ran numersense_v2; texts are not bundled.",
        "report.html",
    ):
        assert part in out
    torch = importlib.util.find_spec("torch") is not None
    assert ("Models that answer alike:" in out) == torch  # the map needs a fit
    page = (tmp_path / "d/report.html").read_text("utf-8")
    assert "thetascope demo" in page
    found = run_demo(tmp_path / "d", seeds=1)  # everything is there already
    study = found.study
    a, b = found.strongest
    whole = next(c for c in found.changes if c.benchmark == "all")
    scores = {
        m: study.responses.filter(pl.col("model") == m).select("item_id", "score") for m in (a, b)
    }
    both = scores[a].join(scores[b], on="item_id")
    assert whole.n_items == both.height
    assert whole.after == pytest.approx(float(both["score"].to_numpy().mean()))
