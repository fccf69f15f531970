"""thetascope: see what language models can and cannot do, item by item.

    import thetascope as ts

    study = ts.read("results/")                # format detected; study.report says what happened
    study = study.save("my-study")             # a folder: immutable files, one commit point
    ts.encode("my-study")                      # text vectors, cached by content
    fit = ts.JEIRT().fit(ts.open("my-study"))  # models and items in one space
    ts.compare(ts.open("my-study"))            # JE-IRT and its rivals on data unseen

Names are imported when they are first used, so that `import thetascope` is quick and needs no
torch.
"""

from __future__ import annotations

from importlib import import_module
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from thetascope.concepts import (
        LanguageModel,
        LanguageModelConfig,
        TrainConfig,
        extract,
        load_concepts,
        read_dictionary,
        train_dictionary,
    )
    from thetascope.decisions import (
        AdaptiveTest,
        ItemBank,
        leaderboard,
        make_bank,
        onboard,
        study_bank,
        tiny_set,
    )
    from thetascope.decisions.routing.evaluate import evaluate_routing
    from thetascope.decisions.routing.router import make_router
    from thetascope.encoders import EncoderConfig, load_vectors
    from thetascope.encoders import encode_study as encode
    from thetascope.errors import InputError, ThetascopeError
    from thetascope.explorer.exports import export_study
    from thetascope.explorer.publish import publish
    from thetascope.explorer.server import explore
    from thetascope.gaps import gap_data, gaps
    from thetascope.gaps.grouping_saved import group_study, load_groups
    from thetascope.gaps.saved import gaps_study, load_gaps
    from thetascope.predictors import JEIRT, Comparison, compare
    from thetascope.predictors.diagnosis import diagnose
    from thetascope.predictors.diff import diff
    from thetascope.predictors.forecast import fit_with_interval, forecast
    from thetascope.predictors.saved import fit_study, load_fit
    from thetascope.readers import ImportReport, ReadOptions, read
    from thetascope.report import write_report as report
    from thetascope.space import model_map, ood, probe, space_of, taxonomy
    from thetascope.space.saved import (
        difficulty_study,
        load_space,
        models_study,
        ood_study,
        probe_study,
        taxonomy_study,
    )
    from thetascope.study import Study
    from thetascope.study.doctor import doctor

    open = Study.open

_PLACES = {
    "AdaptiveTest": ("decisions", "AdaptiveTest"),
    "Comparison": ("predictors", "Comparison"),
    "EncoderConfig": ("encoders", "EncoderConfig"),
    "ImportReport": ("readers", "ImportReport"),
    "InputError": ("errors", "InputError"),
    "JEIRT": ("predictors", "JEIRT"),
    "ReadOptions": ("readers", "ReadOptions"),
    "Study": ("study", "Study"),
    "ThetascopeError": ("errors", "ThetascopeError"),
    "compare": ("predictors", "compare"),
    "diagnose": ("predictors.diagnosis", "diagnose"),
    "diff": ("predictors.diff", "diff"),
    "doctor": ("study.doctor", "doctor"),
    "encode": ("encoders", "encode_study"),
    "ItemBank": ("decisions", "ItemBank"),
    "leaderboard": ("decisions", "leaderboard"),
    "evaluate_routing": ("decisions.routing.evaluate", "evaluate_routing"),
    "make_router": ("decisions.routing.router", "make_router"),
    "make_bank": ("decisions", "make_bank"),
    "onboard": ("decisions", "onboard"),
    "study_bank": ("decisions", "study_bank"),
    "tiny_set": ("decisions", "tiny_set"),
    "extract": ("concepts", "extract"),
    "gap_data": ("gaps", "gap_data"),
    "gaps": ("gaps", "gaps"),
    "gaps_study": ("gaps.saved", "gaps_study"),
    "group_study": ("gaps.grouping_saved", "group_study"),
    "load_gaps": ("gaps.saved", "load_gaps"),
    "load_groups": ("gaps.grouping_saved", "load_groups"),
    "load_concepts": ("concepts", "load_concepts"),
    "export_study": ("explorer.exports", "export_study"),
    "explore": ("explorer.server", "explore"),
    "publish": ("explorer.publish", "publish"),
    "fit_with_interval": ("predictors.forecast", "fit_with_interval"),
    "forecast": ("predictors.forecast", "forecast"),
    "fit_study": ("predictors.saved", "fit_study"),
    "load_fit": ("predictors.saved", "load_fit"),
    "load_vectors": ("encoders", "load_vectors"),
    "LanguageModel": ("concepts", "LanguageModel"),
    "LanguageModelConfig": ("concepts", "LanguageModelConfig"),
    "TrainConfig": ("concepts", "TrainConfig"),
    "read_dictionary": ("concepts", "read_dictionary"),
    "train_dictionary": ("concepts", "train_dictionary"),
    "read": ("readers", "read"),
    "report": ("report", "write_report"),
    "difficulty_study": ("space.saved", "difficulty_study"),
    "load_space": ("space.saved", "load_space"),
    "model_map": ("space", "model_map"),
    "models_study": ("space.saved", "models_study"),
    "ood": ("space", "ood"),
    "ood_study": ("space.saved", "ood_study"),
    "probe": ("space", "probe"),
    "probe_study": ("space.saved", "probe_study"),
    "space_of": ("space", "space_of"),
    "taxonomy": ("space", "taxonomy"),
    "taxonomy_study": ("space.saved", "taxonomy_study"),
}

__version__ = version("thetascope")
__all__ = [
    "JEIRT",
    "AdaptiveTest",
    "Comparison",
    "EncoderConfig",
    "ImportReport",
    "InputError",
    "ItemBank",
    "LanguageModel",
    "LanguageModelConfig",
    "ReadOptions",
    "Study",
    "ThetascopeError",
    "TrainConfig",
    "compare",
    "diagnose",
    "diff",
    "difficulty_study",
    "doctor",
    "encode",
    "evaluate_routing",
    "explore",
    "export_study",
    "extract",
    "fit_study",
    "fit_with_interval",
    "forecast",
    "gap_data",
    "gaps",
    "gaps_study",
    "group_study",
    "leaderboard",
    "load_concepts",
    "load_fit",
    "load_gaps",
    "load_groups",
    "load_space",
    "load_vectors",
    "make_bank",
    "make_router",
    "model_map",
    "models_study",
    "onboard",
    "ood",
    "ood_study",
    "open",
    "probe",
    "probe_study",
    "publish",
    "read",
    "read_dictionary",
    "report",
    "space_of",
    "study_bank",
    "taxonomy",
    "taxonomy_study",
    "tiny_set",
    "train_dictionary",
]


def __getattr__(name: str) -> Any:
    if name == "open":
        return import_module("thetascope.study").Study.open
    if name not in _PLACES:
        raise AttributeError(f"module 'thetascope' has no attribute {name!r}")
    place, attribute = _PLACES[name]
    return getattr(import_module(f"thetascope.{place}"), attribute)


def __dir__() -> list[str]:
    return sorted(__all__)
