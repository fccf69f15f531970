"""Fits of any predictor, kept in a study folder and read back."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from thetascope.cli import main
from thetascope.errors import InputError, StaleError
from thetascope.predictors import JEIRT, Predictor, make_predictor
from thetascope.predictors.blend import Blend
from thetascope.predictors.forecast import fit_with_interval
from thetascope.predictors.saved import find_fit, fit_study, fits_of, load_fit
from thetascope.study import Study, files, store

N = 160


def made_study(folder: Path, n: int = N) -> Path:
    """Two benchmarks, five models, vectors that tell who is right."""
    rng = np.random.default_rng(0)
    vectors = rng.normal(size=(n, 8)).astype(np.float32)
    chance = 1 / (1 + np.exp(-vectors @ rng.normal(size=(8, 5))))
    rows = [
        (f"b{i % 2}:{i}", f"m{m}", int(rng.random() < chance[i, m]), f"question {i}?")
        for i in range(n)
        for m in range(5)
    ]
    folder.mkdir(parents=True)
    frame = pl.DataFrame(rows, schema=["item_id", "model", "score", "text"], orient="row")
    frame.write_csv(folder / "results.csv")
    np.save(folder / "v.npy", vectors)
    (folder / "ids.txt").write_text("\n".join(f"b{i % 2}:{i}" for i in range(n)))
    study = folder / "study"
    assert main(["import", str(folder / "results.csv"), "--into", str(study)]) == 0
    assert main(["encode", str(study), "--vectors", str(folder / "v.npy"), "--ids",
                 str(folder / "ids.txt")]) == 0  # fmt: skip
    return study


@pytest.fixture
def study(tmp_path: Path) -> Path:
    return made_study(tmp_path / "made")


def test_a_kept_fit_is_the_fit_and_its_interval(study: Path) -> None:
    made = fit_study(study, make_predictor("mirt_text"))
    assert made.new
    assert not fit_study(study, make_predictor("mirt_text")).new
    opened = Study.open(study)
    fitted, interval = fit_with_interval(opened, make_predictor("mirt_text"))
    found = find_fit(opened, make_predictor("mirt_text", vectors="v"))
    assert found is not None
    assert found.interval == interval
    assert len(found.held) == 16
    assert (found.fit.predict_proba(opened) == fitted.predict_proba(opened)).all()
    loaded = load_fit(opened, "mirt_text", Predictor)
    assert (loaded.predict_proba(opened) == fitted.predict_proba(opened)).all()
    assert {p.name for p in made.folder.iterdir()} == {
        "config.json", "weights.safetensors", "held.json", "interval.json",
        "manifest.json", "run.json",
    }  # fmt: skip
    assert find_fit(opened, make_predictor("mirt_text", dim=3)) is None
    assert find_fit(opened, make_predictor("knn")) is None


def test_a_fit_kept_in_an_older_layout_is_read_and_never_in_the_way(study: Path) -> None:
    """Before, the settings were those of the predictor alone."""
    made = fit_study(study, make_predictor("mirt_text"))
    held = files.read_json(made.folder / "manifest.json")
    with store.writing(study) as writer:
        work = writer.work_folder("fits", "mirt_text", "older")
        shutil.copytree(made.folder, work, dirs_exist_ok=True)
        older = {**held, "settings": held["settings"]["parameters"]}
        writer.put_derived("fits", "mirt_text", "older", work, older)
        writer.commit()
    opened = Study.open(study)
    assert list(fits_of(opened)) == ["mirt_text"]
    assert load_fit(opened, "mirt_text", Predictor).NAME == "mirt_text"
    assert find_fit(opened, make_predictor("mirt_text")) is None
    assert not fit_study(study, make_predictor("mirt_text")).new  # the newer one lies there still


def test_fits_of_two_kinds_side_by_side(study: Path) -> None:
    """Whoever asks for JE-IRT gets JE-IRT."""
    pytest.importorskip("torch", reason="torch is not installed")
    assert main(["fit", str(study), "--predictor", "knn"]) == 0
    opened = Study.open(study)
    with pytest.raises(InputError, match="is a fit of knn, expected JEIRT"):
        load_fit(opened)
    assert main(["fit", str(study), "--max-epochs", "2"]) == 0
    opened = Study.open(study)
    assert fits_of(opened).keys() == {"knn", "jeirt"}
    assert isinstance(load_fit(opened), JEIRT)
    with pytest.raises(InputError, match="several fits in the study: jeirt, knn"):
        load_fit(opened, None, Predictor)
    assert find_fit(opened, JEIRT(max_epochs=2)) is None, "JE-IRT alone keeps no interval"


def test_the_blend_is_kept_stopped_and_goes_on_to_the_same_bytes(
    study: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("torch", reason="torch is not installed")
    settings = Blend(fits=2, max_epochs=3)
    other = made_study(tmp_path / "other")
    whole = fit_study(other, settings).folder
    fit_in, calls = JEIRT.fit_in, 0

    def stopping(self: JEIRT, *rest: object) -> JEIRT:
        nonlocal calls
        calls += 1
        if calls == 2:
            raise KeyboardInterrupt
        return fit_in(self, *rest)  # type: ignore[arg-type]

    monkeypatch.setattr(JEIRT, "fit_in", stopping)
    with pytest.raises(KeyboardInterrupt):
        fit_study(study, Blend(fits=2, max_epochs=3))
    made = fit_study(study, Blend(fits=2, max_epochs=3)).folder
    assert calls == 3, "the first member was read, not fitted again"
    assert made.name == whole.name
    for file in whole.iterdir():
        if file.name != "run.json":
            assert file.read_bytes() == (made / file.name).read_bytes(), file.name
    assert load_fit(Study.open(study), "blend", Blend).fits == 2


def test_stale_and_damaged_fits_are_refused(study: Path, tmp_path: Path) -> None:
    made = fit_study(study, make_predictor("ridge"))
    weights = made.folder / "weights.safetensors"
    content = weights.read_bytes()
    weights.write_bytes(content[:-1])
    for read in (
        lambda: load_fit(Study.open(study), "ridge", Predictor),
        lambda: find_fit(Study.open(study), make_predictor("ridge")),
    ):
        with pytest.raises(InputError, match="is damaged: its content is not what its name"):
            read()
    weights.write_bytes(content)
    extra = tmp_path / "more.csv"
    extra.write_text("item_id,model,score\nb0:0,new,1\n")
    assert main(["import", str(extra), "--into", str(study)]) == 0
    with pytest.raises(StaleError, match="made from other models"):
        load_fit(Study.open(study), "ridge", Predictor)
    assert find_fit(Study.open(study), make_predictor("ridge")) is None


def test_too_few_items_for_an_interval(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    study = made_study(tmp_path / "small", n=6)
    capsys.readouterr()
    assert main(["fit", str(study), "--predictor", "model_mean", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["predictor"], found["models"], found["interval"]) == ("model_mean", 5, False)
    assert main(["fit", str(study), "--predictor", "model_mean"]) == 0
    assert "too few items to learn the interval" in capsys.readouterr().out


def test_settings_go_to_the_predictor_that_has_them(
    study: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["fit", str(study), "--predictor", "knn", "--dropout", "0.1"]) == 2
    assert "field 'dropout': is a setting of jeirt, knn has none" in capsys.readouterr().err
    assert main(["fit", str(study), "--predictor", "best"]) == 2
    assert "no predictor 'best'" in capsys.readouterr().err
    assert main(["fit", str(study), "--predictor", "ridge", "--vectors", "v", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["settings"]["vectors"] == "v"


def test_an_older_fit_says_how_to_renew_it(study: Path) -> None:
    made = fit_study(study, make_predictor("ridge"))
    files.write_json(made.folder / "config.json", {"predictor": "ridge", "settings": {}})
    with pytest.raises(InputError, match=r"of an older thetascope.*renew the fit with"):
        Predictor.load(made.folder)
    assert not store.intact(made.folder)
