"""What the core install promises: these run where torch cannot be imported."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from thetascope.predictors import ContextJEIRT
from thetascope.predictors.means import benchmark_means
from thetascope.predictors.saved import load_fit
from thetascope.study import Study

BLOCK = """
import sys

from importlib.machinery import PathFinder

find = PathFinder.find_spec

def hide(name, path=None, target=None):
    hidden = name.split('.')[0] in ('torch', 'transformers', 'sentence_transformers')
    return None if hidden else find(name, path, target)

PathFinder.find_spec = hide
from thetascope.cli import main
sys.exit(main(sys.argv[1:]))
"""


def without_torch(*arguments: str | Path, status: int = 0) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", BLOCK, *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == status, done.stderr
    return done


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Imported, given vectors, looked over and compared without torch."""
    folder = tmp_path_factory.mktemp("core")
    rng = np.random.default_rng(0)
    rows = [(f"b{i % 2}:{i}", f"m{m}", int(rng.random() < 0.3 + 0.1 * m)) for i in range(200)
            for m in range(5)]  # fmt: skip
    frame = pl.DataFrame(rows, schema=["item_id", "model", "score"], orient="row")
    texts = pl.concat_str(pl.lit("question "), "item_id").alias("text")
    frame.with_columns(texts).write_csv(folder / "results.csv")
    np.save(folder / "v.npy", rng.normal(size=(200, 8)).astype(np.float32))
    (folder / "ids.txt").write_text("\n".join(f"b{i % 2}:{i}" for i in range(200)))
    without_torch("import", folder / "results.csv", "--into", folder / "study")
    without_torch("encode", folder / "study", "--vectors", folder / "v.npy", "--ids",
                  folder / "ids.txt")  # fmt: skip
    without_torch("doctor", folder / "study")
    return folder / "study"


def test_compare_runs_what_needs_no_torch_and_says_what_it_left_out(study: Path) -> None:
    table = json.loads(without_torch("compare", study, "--seeds", "2", "--json").stdout)
    ran = {row["predictor"] for row in table["rows"]}
    assert ran == {"model_mean", "model_benchmark", "knn", "knn_weighted", "ridge",
                   "mirt_text"}  # fmt: skip
    for name in ("irt_1pl", "irt_2pl", "mirt"):
        assert table["skipped"][name].startswith("knows items by their responses")
    for name in ("blend", "jeirt", "jeirt_context", "embedllm"):
        assert table["skipped"][name] == ("torch is not installed (pip install 'thetascope[fit]')")


def test_diagnose_leaves_out_what_needs_torch_and_says_so(study: Path) -> None:
    losses = json.loads(without_torch("diagnose", study, "--json").stdout)["losses"]
    ran = {row["predictor"] for row in losses["rows"]}
    assert ran == {"irt_1pl", "irt_2pl", "mirt", "mirt_text"}
    assert losses["left_out"] == {
        "jeirt_context": "torch is not installed (pip install 'thetascope[fit]')"
    }


def test_fitting_says_what_to_install(study: Path) -> None:
    done = without_torch("fit", study, status=2)
    assert done.stderr == (
        "thetascope: Fitting JE-IRT needs packages that are not installed; install them with:"
        " pip install 'thetascope[fit]'\n"
    )


def test_encoding_says_what_to_install(study: Path) -> None:
    done = without_torch("encode", study, status=2)
    assert "pip install 'thetascope[" in done.stderr
    assert done.stderr.count("\n") == 1


def test_training_a_dictionary_says_what_to_install(tmp_path: Path) -> None:
    (tmp_path / "texts.txt").write_text("one\n\ntwo\n")
    to = ("--to", tmp_path / "out")
    done = without_torch("concepts", "train", tmp_path / "texts.txt", *to, status=2)
    assert done.stderr == (
        "thetascope: running a language model needs packages that are not installed; install them"
        " with: pip install 'thetascope[sae]'\n"
    )


def test_extracting_concepts_says_what_to_install(study: Path) -> None:
    done = without_torch("concepts", "extract", study, status=2)
    assert "pip install 'thetascope[sae]'" in done.stderr
    assert done.stderr.count("\n") == 1


def test_a_stored_fit_predicts(study: Path, tmp_path: Path) -> None:
    """A fit that another machine made: read from disk, items scored, no torch."""
    opened = Study.open(study)
    from thetascope.predictors import study_sample

    sample = study_sample(opened)
    rng = np.random.default_rng(1)
    fit = ContextJEIRT(dim=3, hidden=6)
    shapes = {"adapter.0.weight": (6, 8), "adapter.0.bias": (6,), "adapter.2.weight": (3, 6),
              "adapter.2.bias": (3,), "models": (5, 3), "offset": (1,)}  # fmt: skip
    fit.log_ = [{"epoch": 0, "validation_log_loss": 0.6}]
    weights = {k: rng.normal(size=s).astype(np.float32) for k, s in shapes.items()}
    fit._learn(sample, weights)
    fit.save(tmp_path)
    code = BLOCK.split("from thetascope.cli")[0] + (
        "from pathlib import Path\n"
        "from thetascope.predictors import ContextJEIRT\n"
        "from thetascope.study import Study\n"
        f"fit = ContextJEIRT.load(Path({str(tmp_path)!r}))\n"
        f"p = fit.predict_proba(Study.open({str(study)!r}))\n"
        "assert 'torch' not in sys.modules\n"
        "print(p.shape, float(p.mean()))\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    expected = fit.predict_proba(opened).mean()
    assert done.stdout.startswith("(200, 5) ")
    assert float(done.stdout.split(") ")[1]) == pytest.approx(expected, abs=1e-12)
    assert benchmark_means(sample).shape == (5, 2)


def test_a_kept_blend_predicts_and_forecasts(study: Path, tmp_path: Path) -> None:
    pytest.importorskip("torch", reason="the fit is made here, with torch")
    from thetascope.predictors.blend import Blend
    from thetascope.predictors.saved import fit_study

    copy = tmp_path / "study"
    shutil.copytree(study, copy)
    fit_study(copy, Blend(fits=1, max_epochs=2))
    code = BLOCK.split("from thetascope.cli")[0] + (
        "from thetascope.predictors.blend import Blend\n"
        "from thetascope.predictors.saved import find_fit\n"
        "from thetascope.study import Study\n"
        f"study = Study.open({str(copy)!r})\n"
        "fit, interval, *_ = find_fit(study, Blend(fits=1, max_epochs=2))\n"
        "p = fit.predict_proba(study)\n"
        "assert 'torch' not in sys.modules\n"
        "print(repr(float(p.sum())), interval.n_items)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    opened = Study.open(copy)
    p = load_fit(opened, "blend", Blend).predict_proba(opened)
    assert done.stdout == f"{float(p.sum())!r} 10\n"


def test_routing_needs_no_torch(study: Path) -> None:
    done = without_torch(
        "route", "evaluate", study, "--predictor", "ridge", "--seeds", "1", "--json"
    )
    assert json.loads(done.stdout)["router"] == "ridge"
    refused = without_torch("route", "evaluate", study, "--seeds", "1", status=2)
    assert "pip install 'thetascope[fit]'" in refused.stderr


def test_the_report_is_written(study: Path, tmp_path: Path) -> None:
    without_torch("compare", study, "--seeds", "2")
    without_torch("report", study, "--to", tmp_path / "page.html")
    assert "<html" in (tmp_path / "page.html").read_text("utf-8")


def test_decisions_need_no_torch(study: Path, tmp_path: Path) -> None:
    board = json.loads(without_torch("leaderboard", study, "--json").stdout)
    assert len(board["models"]) == 5
    pl.DataFrame({"item_id": ["b0:0", "b1:1"], "model": ["new", "new"], "score": [1, 0]}).write_csv(
        tmp_path / "new.csv"
    )
    found = json.loads(without_torch("onboard", study, tmp_path / "new.csv", "--json").stdout)
    assert found["n_answers"] == 2
    made = json.loads(
        without_torch("tiny", study, "--benchmark", "b0", "--n", "9", "--json").stdout
    )
    assert len(made["items"]) == 9
