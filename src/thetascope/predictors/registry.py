"""Predictors by name."""

from __future__ import annotations

from typing import Any

from thetascope.errors import InputError
from thetascope.predictors.base import ItemFeatures, Predictor
from thetascope.predictors.blend import Blend
from thetascope.predictors.embedllm import EmbedLLM
from thetascope.predictors.irt import MIRT, OnePL, TextMIRT, TwoPL
from thetascope.predictors.jeirt import ContextJEIRT, PlainJEIRT
from thetascope.predictors.knn import KNN, WeightedKNN
from thetascope.predictors.means import ModelBenchmarkMean, ModelMean, ModelSubjectMean
from thetascope.predictors.ridge import Ridge

PREDICTORS: dict[str, type[Predictor]] = {
    "blend": Blend,
    "jeirt": PlainJEIRT,
    "jeirt_context": ContextJEIRT,
    "model_mean": ModelMean,
    "model_benchmark": ModelBenchmarkMean,
    "model_subject": ModelSubjectMean,
    "knn": KNN,
    "knn_weighted": WeightedKNN,
    "ridge": Ridge,
    "embedllm": EmbedLLM,
    "irt_1pl": OnePL,
    "irt_2pl": TwoPL,
    "mirt": MIRT,
    "mirt_text": TextMIRT,
}
NEEDS_TORCH = frozenset({"blend", "jeirt", "jeirt_context", "embedllm"})


def make_predictor(spec: str | Predictor, **settings: Any) -> Predictor:
    """Returns the predictor itself, or a new one by its name.

    Raises:
        InputError: The name is unknown.
    """
    if isinstance(spec, Predictor):
        return spec
    if spec not in PREDICTORS:
        raise InputError(f"no predictor {spec!r}; there are {', '.join(PREDICTORS)}")
    return PREDICTORS[spec](**settings)


def reading(name: str, vectors: str | None) -> Predictor:
    """A new predictor by its name that reads these text vectors, if it reads any.

    Raises:
        InputError: The name is unknown.
    """
    made = make_predictor(name)
    return make_predictor(name, vectors=vectors) if "vectors" in made.get_params() else made


def unmet_need(predictor: type[Predictor] | Predictor, items: ItemFeatures) -> str | None:
    """Why a predictor cannot work on these items; None where it can."""
    needs = predictor.NEEDS
    if "vectors" in needs and items.vectors is None:
        return "the study has no text vectors (thetascope encode)"
    if "vectors" in needs and items.has_vector is not None and not items.has_vector.all():
        n = int((~items.has_vector).sum())
        return f"{n:,} of {len(items):,} items have no text vector (thetascope encode)"
    if "benchmarks" in needs and len(items.benchmarks) < 2:
        return "the study has one benchmark"
    if "subjects" in needs and len(items.subjects) <= len(items.benchmarks):
        return "the study has no subjects"
    return None
