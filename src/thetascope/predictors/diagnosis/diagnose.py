"""Why one number is not enough: what a single ability a model leaves unsaid."""

from __future__ import annotations

import importlib.util
from dataclasses import dataclass
from typing import Any

import polars as pl

from thetascope.errors import InputError
from thetascope.predictors.base import ItemFeatures, Sample, study_sample
from thetascope.predictors.comparison import compare
from thetascope.predictors.diagnosis.discrimination import Discrimination, Tick, discrimination
from thetascope.predictors.diagnosis.monotone import Monotonicity, monotonicity
from thetascope.predictors.diagnosis.reversals import Reversals, reversals
from thetascope.predictors.registry import NEEDS_TORCH, make_predictor, unmet_need
from thetascope.predictors.runs import Progress
from thetascope.predictors.setup import study_groups
from thetascope.study import Study

BOOTSTRAPS, SEEDS = 50, 1
ONE_ABILITY = "irt_2pl"
"""Predictor of the paired differences."""
_ITEM_RESPONSE = ("irt_1pl", "irt_2pl", "mirt", "mirt_text")


@dataclass(frozen=True)
class Losses:
    """Predictive log-loss on held-out responses of known items.

    Attributes:
        why_not: Why nothing is reported; None where something is.
        reference: Predictor of the paired differences.
        rows: Rows of the comparison, as in `Comparison.to_json`.
        left_out: predictor -> why it did not run.
    """

    why_not: str | None
    reference: str | None
    rows: list[dict[str, Any]]
    left_out: dict[str, str]


@dataclass(frozen=True)
class Diagnosis:
    """Four looks at whether one ability a model describes a study.

    Attributes:
        study: n_items, n_models, n_responses, benchmarks, graded, n_groups.
        settings: bootstraps, seeds, seed.
        discrimination: The 2PL without a sign constraint.
        monotonicity: Empirical item characteristic curves.
        reversals: Orders that differ between benchmarks or subjects.
        losses: Held-out log-loss of one, several and text-given dimensions.
    """

    study: dict[str, Any]
    settings: dict[str, Any]
    discrimination: Discrimination
    monotonicity: Monotonicity
    reversals: Reversals
    losses: Losses

    @property
    def items(self) -> pl.DataFrame:
        """item_id, benchmark, n_models, constant, a, se, n_bins, statistic, p, q."""
        return self.discrimination.items.hstack(self.monotonicity.items.drop("item_id"))

    def to_json(self) -> dict[str, Any]:
        """One object; the items' own numbers are in `items`."""
        return {
            "study": self.study,
            "settings": self.settings,
            "discrimination": self.discrimination.to_json(),
            "monotonicity": self.monotonicity.to_json(),
            "reversals": self.reversals.to_json(),
            "losses": vars(self.losses),
        }


def diagnose(
    study: Study,
    *,
    seeds: int = SEEDS,
    bootstraps: int = BOOTSTRAPS,
    seed: int = 0,
    encoder: str | None = None,
    progress: Progress | None = None,
) -> Diagnosis:
    """Looks whether one ability a model describes a study, in four ways.

    Discriminations without a sign constraint beside those of noise, item characteristic curves
    tested for monotonicity, order reversals of models, and the held-out log-loss of 1PL, 2PL,
    MIRT and JE-IRT. What a study is too small for says so in its `why_not`.

    Args:
        study: The study.
        seeds: Splits of the comparison, 1 to 10; 0 leaves it out.
        bootstraps: Parametric bootstraps of the 2PL.
        seed: Of all draws.
        encoder: Name of the study's text vectors; None for the only ones.
        progress: Called with (done, total, what) on the way.

    Raises:
        InputError: A setting is out of range, or the study has no responses.
    """
    check_settings(seeds, bootstraps, seed)
    sample = study_sample(study, encoder)
    chosen, left_out = comparable(sample.items)
    losses = Losses("not asked for (seeds = 0)", None, [], {})
    if seeds:
        try:
            result = compare(
                study, chosen, split="warm-cells", seeds=seeds, encoder=encoder,
                reference=ONE_ABILITY, progress=progress,
            )  # fmt: skip
        except InputError as error:
            losses = Losses(str(error), None, [], left_out)
        else:
            losses = losses_of(result.to_json(), left_out)
    return look(study, sample, losses, seeds, bootstraps, seed, progress)


def check_settings(seeds: int, bootstraps: int, seed: int) -> None:
    """Raises InputError where a setting is out of range."""
    for name, value, top in (("seeds", seeds, 10), ("bootstraps", bootstraps, 10_000)):
        if not 0 <= value <= top:
            raise InputError(f"expected 0 to {top:,}, found {value}", field=name)
    if seed < 0:
        raise InputError(f"expected a whole number from 0, found {seed}", field="seed")


def comparable(items: ItemFeatures) -> tuple[list[str], dict[str, str]]:
    """Which predictors are compared, and why the others are not."""
    jeirt = "jeirt_context" if len(items.benchmarks) > 1 else "jeirt"
    torch = importlib.util.find_spec("torch") is not None
    chosen: list[str] = []
    left_out: dict[str, str] = {}
    for name in (*_ITEM_RESPONSE, jeirt):
        why = unmet_need(make_predictor(name), items)
        if why is None and name in NEEDS_TORCH and not torch:
            why = "torch is not installed (pip install 'thetascope[fit]')"
        if why is None:
            chosen.append(name)
        else:
            left_out[name] = why
    return chosen, left_out


def losses_of(table: dict[str, Any], left_out: dict[str, str]) -> Losses:
    """What is shown of a comparison's table: whole and benchmarks."""
    rows = [r for r in table["rows"] if r["subject"] == "all"]
    return Losses(None, table["reference"], rows, left_out)


def look(
    study: Study,
    sample: Sample,
    losses: Losses,
    seeds: int,
    bootstraps: int,
    seed: int,
    progress: Progress | None,
) -> Diagnosis:
    """All that needs no comparison."""
    observed = sample.responses.observed
    if not observed.any():
        raise InputError("the study has no responses to look at")

    def tick(what: str) -> Tick:
        def told(done: int, total: int) -> None:
            if progress is not None:
                progress(done, total, what)

        return told

    groups = study_groups(study, sample.items)
    return Diagnosis(
        {
            "n_items": len(sample.items),
            "n_models": sample.responses.n_models,
            "n_responses": int(observed.sum()),
            "benchmarks": list(sample.items.benchmarks),
            "graded": not sample.responses.binary,
            "n_groups": groups.n_groups,
        },
        {"bootstraps": bootstraps, "seeds": seeds, "seed": seed},
        discrimination(sample, bootstraps=bootstraps, seed=seed, tick=tick("bootstrap")),
        monotonicity(sample, seed=seed, tick=tick("item characteristic curves")),
        reversals(sample, groups.labels, seed=seed),
        losses,
    )
