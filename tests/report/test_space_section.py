"""Section What the learnt space says: its numbers, hostile names, what is missing or old."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from report_cases import HOSTILE, Seen, made_study
from tests.space.space_cases import planted_space

from thetascope.evaluation import Estimate
from thetascope.report import space_section
from thetascope.report.gather import Material, gather
from thetascope.space import probe, taxonomy
from thetascope.space.ood import Ood, PartDrop, correlations
from thetascope.study import Study

EVIL = "<script>alert(1)</script>"


def through_json(value: Any) -> dict[str, Any]:
    return json.loads(json.dumps(value, allow_nan=False))


@pytest.fixture(scope="module")
def material(tmp_path_factory: pytest.TempPathFactory) -> Material:
    folder = tmp_path_factory.mktemp("space") / "study"
    made_study(m=8, names=HOSTILE, n=120).save(folder)
    return gather(Study.open(folder), None, None, None)


@pytest.fixture(scope="module")
def kept() -> dict[str, dict[str, Any]]:
    """Real results on planted data whose models and texts are hostile."""
    space, responses, topic = planted_space(n=320)
    space = replace(space, models=(*HOSTILE[:4], EVIL, "m5", "m6", "m7"))
    texts = [f"{EVIL} kind{t} question" for t in topic]
    tree = taxonomy(space, responses, texts, np.arange(320), np.ones(320, bool), k=4)
    axis = probe(space, topic == 0, topic == 1, np.arange(320))
    drops = []
    for i, name in enumerate((EVIL, "b", "c", "d", "e")):
        e = Estimate(0.1 * i, 0.1 * i - 0.02, 0.1 * i + 0.02)
        drops.append(PartDrop(name, 10, 80, e, e, 0.5, 0.4, {0: e, 10: e}, 0.2 * i, 0.5,
                              [("b", 0.5)]))  # fmt: skip
    lost = Ood("benchmark", 1, drops, [], correlations(drops))
    return {
        "taxonomy": through_json({"fit": "space", **tree.to_json()}),
        "probe-words": through_json(
            {"fit": "space", "sets": {"positive": f"text:{EVIL}", "negative": "rest"},
             **axis.to_json()}
        ),
        "ood": through_json(lost.to_json()),
    }  # fmt: skip


def test_nothing_asked_names_the_commands(material: Material) -> None:
    text = Seen(space_section.render(material).html).text
    assert "Nothing has been asked of the space yet" in text
    for command in ("taxonomy", "models", "ood", "difficulty"):
        assert f"thetascope space {command} study" in text


def test_its_numbers_stand_in_the_section(
    material: Material, kept: dict[str, dict[str, Any]]
) -> None:
    html = space_section.render(replace(material, spaces=kept)).html
    text = Seen(html).text
    for c in kept["taxonomy"]["clusters"]:
        assert f"{c['n_items']:,}" in text
        assert c["name"] in text
    assert f"{kept['probe-words']['separation']['space'][0]:.3f}" in text
    assert f"{kept['ood']['correlation']['mean']['rho'][0]:.2f}" in text
    assert "+0.400" in text
    assert "thetascope space models study" in text  # what was not asked is offered still
    assert "thetascope space taxonomy" not in text


def test_names_from_files_are_text(material: Material, kept: dict[str, dict[str, Any]]) -> None:
    html = space_section.render(replace(material, spaces=kept)).html
    assert "<script" not in html
    assert "&lt;script&gt;" in html
    assert "nan" not in Seen(html).text.lower().split()


def test_what_is_old_is_called_old(material: Material) -> None:
    text = Seen(space_section.render(replace(material, stale_spaces=("ood",))).html).text
    assert "damaged, or made from other tables than the study holds now: ood" in text


def test_maps_and_portfolios(material: Material, tmp_path: Path) -> None:
    pytest.importorskip("torch", reason="torch is not installed")
    from tests.predictors.predictor_cases import make_sample

    from thetascope.predictors import JEIRT
    from thetascope.space import model_map, space_of

    sample = make_sample(n=240, m=6)
    fit = JEIRT(max_epochs=3, dim=5, context=False).fit(sample)
    space = space_of(fit, sample.items)
    found = model_map(
        space, fit, sample.responses, np.arange(240), ["x", "x", "y", "y", None, None]
    )
    spaces = {"models": through_json({"fit": "space", **found.to_json()})}
    html = space_section.render(replace(material, spaces=spaces)).html
    text = Seen(html).text
    assert found.portfolio is not None
    assert f"{found.portfolio.n_items:,} items" in text
    assert "4 models with a relative in 2 named families" in text
    assert html.count("<svg") == 2
