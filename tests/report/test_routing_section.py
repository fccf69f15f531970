"""Section Which model to ask: its numbers, its figure, and when it is there."""

from __future__ import annotations

import re
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import polars as pl
from report_cases import HOSTILE, Seen, made_study

from thetascope.cli import main
from thetascope.decisions.routing.saved import evaluate_study, load_routing
from thetascope.decisions.routing.wording import row_of
from thetascope.report import write_report
from thetascope.study import Study


def section(study: Study, folder: Path) -> str | None:
    page = write_report(study, folder / "page.html").read_text("utf-8")
    found = re.search(r'<section id="routing">.*?</section>', page, re.DOTALL)
    return None if found is None else found[0]


def test_it_is_there_once_routing_was_evaluated(tmp_path: Path) -> None:
    made = made_study(m=5, n=160, names=HOSTILE)
    prices = [0.5 * (i + 1) for i in range(made.n_models)]
    models = made.models.with_columns(pl.Series("price_out_usd_per_mtok", prices))
    study = Study.from_tables(made.responses, made.items, models, made.runs).save(tmp_path / "s")
    np.save(tmp_path / "v.npy", np.random.default_rng(0).normal(size=(study.n_items, 12)))
    (tmp_path / "ids.txt").write_text("\n".join(study.items["item_id"]))
    folder = tmp_path / "s"
    assert main(["encode", str(folder), "--vectors", str(tmp_path / "v.npy"), "--ids",
                 str(tmp_path / "ids.txt")]) == 0  # fmt: skip
    assert section(Study.open(folder), tmp_path) is None
    evaluate_study(folder, "ridge", seeds=2)
    html = section(Study.open(folder), tmp_path)
    assert html is not None
    table = load_routing(Study.open(folder)).table
    text = Seen(html).text
    for policy in ("random", "best_average", "ridge", "ridge_guarded", "oracle"):
        assert f"{100 * row_of(table, policy)['score']:.1f}" in text
    assert "nan" not in text.lower().split()
    assert "<script" not in html
    figure = re.search(r"<svg.*?</svg>", html, re.DOTALL)
    assert figure is not None
    drawn = ElementTree.fromstring(figure[0])
    circles = [e for e in drawn.iter() if e.tag.endswith("circle")]
    assert len(circles) == 2 * len(table["frontier"]["points"])
    Study.open(folder).rename_models({study.models["model"][0]: "renamed"}).save(folder)
    old = section(Study.open(folder), tmp_path)
    assert old is not None
    assert "thetascope route evaluate s --name routing" in old
