"""Who gets what right: JE-IRT and its rivals behind one protocol."""

from thetascope.predictors.base import ItemFeatures, Predictor, Sample, item_features, study_sample
from thetascope.predictors.comparison import Comparison, Row, compare
from thetascope.predictors.jeirt import JEIRT, PRESETS, ContextJEIRT, PlainJEIRT
from thetascope.predictors.registry import PREDICTORS, make_predictor

__all__ = [
    "JEIRT",
    "PREDICTORS",
    "PRESETS",
    "Comparison",
    "ContextJEIRT",
    "ItemFeatures",
    "PlainJEIRT",
    "Predictor",
    "Row",
    "Sample",
    "compare",
    "item_features",
    "make_predictor",
    "study_sample",
]
