"""The real sets as samples, without texts, and which models are twins."""

from __future__ import annotations

import csv
from pathlib import Path

from thetascope.predictors import Sample, study_sample
from thetascope.readers import read

SHARED = Path(__file__).resolve().parents[2] / "shared" / "data"


def load(name: str) -> Sample:
    """A set read from its folder."""
    return study_sample(read(SHARED / name))


def crosswalk(name: str) -> dict[str, str]:
    """Model -> canonical name: models of one canonical name are twins."""
    with (SHARED / "model_crosswalk.csv").open(encoding="utf-8") as file:
        return {r["model"]: r["canonical"] for r in csv.DictReader(file) if r["dataset"] == name}
