"""Made studies for the page, and a parser that sees what a browser would."""

from __future__ import annotations

from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import polars as pl

from thetascope.encoders import import_vectors
from thetascope.predictors.saved import compare_study
from thetascope.study import Study

HOSTILE = (
    "<script>alert('x')</script>",
    '"><img src=x onerror=alert(1)>',
    "\u202eright to left\u200f & 'quotes'",
    "</title></style></svg><b>bold</b>\x00\x07",
    "</td></tr></table><iframe src='http://x.example'></iframe>",
)


def made_study(
    n: int = 120,
    m: int = 9,
    *,
    graded: bool = False,
    texts: bool = True,
    names: tuple[str, ...] = (),
    text: str = "",
    seed: int = 0,
) -> Study:
    """A study of two benchmarks; one model lacks the second."""
    rng = np.random.default_rng(seed)
    chance = 1 / (1 + np.exp(-(rng.normal(size=(n, 1)) + np.linspace(-1, 1.5, m))))
    score = chance if graded else (rng.random((n, m)) < chance).astype(float)
    models = [*names, *(f"model {i}" for i in range(m))][:m]
    items = pl.DataFrame(
        {
            "item_id": [f"b{i % 2}:{i}" for i in range(n)],
            "source_id": [str(i) for i in range(n)],
            "benchmark": [f"b{i % 2}" for i in range(n)],
            "subject": [f"s{i % 4}" for i in range(n)],
            **({"text": [f"question {i} {text}" for i in range(n)]} if texts else {}),
        }
    )
    cells = [(i, k) for i in range(n) for k in range(m) if not (k == 0 and m > 2 and i % 2)]
    responses = pl.DataFrame(
        {
            "item_id": [f"b{i % 2}:{i}" for i, _ in cells],
            "model": [models[k] for _, k in cells],
            "score": [float(score[i, k]) for i, k in cells],
        }
    )
    return Study.from_tables(responses, items)


def compared(study: Study, folder: Path) -> Study:
    """The study on disk with vectors and a comparison that needs no torch."""
    study.save(folder)
    rng = np.random.default_rng(1)
    np.save(folder.with_suffix(".npy"), rng.normal(size=(study.n_items, 8)).astype(np.float32))
    ids = folder.with_suffix(".txt")
    ids.write_text("\n".join(study.items["item_id"]) + "\n")
    import_vectors(folder, folder.with_suffix(".npy"), name="made", ids=ids)
    compare_study(
        folder, ["knn", "knn_weighted", "model_benchmark", "model_mean", "ridge"],
        seeds=3, reference="knn",
    )  # fmt: skip
    return Study.open(folder)


class Seen(HTMLParser):
    """Elements, attributes and text of a page."""

    def __init__(self, page: str) -> None:
        super().__init__(convert_charrefs=True)
        self.tags: dict[str, int] = {}
        self.attributes: list[tuple[str, str, str]] = []
        self.ids: list[str] = []
        self.rows: list[list[str]] = []
        self.text = ""
        self._open = ""
        self.feed(page)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._open = tag
        self.tags[tag] = self.tags.get(tag, 0) + 1
        self.attributes += [(tag, k, v or "") for k, v in attrs]
        self.ids += [v or "" for k, v in attrs if k == "id"]
        if tag == "tr":
            self.rows.append([])
        elif tag in ("td", "th"):
            self.rows[-1].append("")

    def handle_endtag(self, tag: str) -> None:
        self._open = ""

    def handle_data(self, data: str) -> None:
        if self._open in ("script", "style"):
            return
        self.text += data
        if self.rows and self.rows[-1]:
            self.rows[-1][-1] += data
