"""EmbedLLM's CSV files."""

from __future__ import annotations

from pathlib import Path

import pytest

from thetascope.errors import InputError
from thetascope.readers import ReadOptions, read

HEAD = "prompt_id,model_id,category_id,label,model_name,prompt,category\n"


def test_one_file(tmp_path: Path) -> None:
    rows = (
        '007,0,1,1,maker/a,"Why, or\nwhy ""not""?",quiz\n'
        "7,0,1,0,maker/a,How?,quiz\n"
        '007,5,1,0,maker/b,"Why, or\nwhy ""not""?",quiz\n'
        "7,5,1,,maker/b,How?,quiz\n"
        "7,0,2,1.0,maker/a,So?,maths\n"
    )
    (tmp_path / "test.csv").write_text(HEAD + rows, encoding="utf-8")
    study = read(tmp_path / "test.csv")
    assert study.responses.select("item_id", "model", "score").rows() == [
        ("quiz:007", "maker/a", 1.0),
        ("quiz:7", "maker/a", 0.0),
        ("maths:7", "maker/a", 1.0),
        ("quiz:007", "maker/b", 0.0),
    ]
    texts = dict(study.items.select("item_id", "text").iter_rows())
    assert texts == {"quiz:007": 'Why, or\nwhy "not"?', "quiz:7": "How?", "maths:7": "So?"}
    assert (study.report.read, study.report.kept) == (5, 4)
    assert study.report.dropped["no score (null or NaN)"].first == "test.csv, record 4"


def test_folder_with_its_duplicates(tmp_path: Path) -> None:
    row = "1,0,1,{},a,Why?,quiz\n"
    (tmp_path / "train.csv").write_text(HEAD + row.format(1), encoding="utf-8")
    (tmp_path / "test.csv").write_text(HEAD + row.format(0), encoding="utf-8")
    (tmp_path / "model_order.csv").write_text("model_id,model_name\n0,a\n", encoding="utf-8")
    with pytest.raises(InputError, match="more than one response"):
        read(tmp_path)
    study = read(tmp_path, options=ReadOptions(on_duplicate="mean"))
    assert study.pairs().select("score", "trials").row(0) == (0.5, 2)
    assert study.report.ignored == ["model_order.csv"]
    assert study.report.notes == [
        "1 (item, model) pairs have more than one response (2 rows): policy 'mean'"
    ]


def test_prompts_may_differ_in_white_space_only(tmp_path: Path) -> None:
    (tmp_path / "test.csv").write_text(HEAD + "1,0,1,1,a,Why?,quiz\n", encoding="utf-8")
    (tmp_path / "train.csv").write_text(HEAD + "1,1,1,0,b,Why? ,quiz\n", encoding="utf-8")
    study = read(tmp_path)
    assert study.n_items == 1
    assert study.n_models == 2
