"""From a study to its item bank."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from thetascope.decisions.bank import ItemBank
from thetascope.decisions.calibration import Report, left_out_folds
from thetascope.decisions.calibration import calibrate as calibrate_bank
from thetascope.decisions.prior import learn_prior
from thetascope.errors import InputError
from thetascope.predictors.base import Sample, study_sample
from thetascope.predictors.jeirt import JEIRT
from thetascope.predictors.logit_space import LogitSpace
from thetascope.predictors.subject_irt import SubjectIRT
from thetascope.study import Study


def make_bank(
    study: Study | Sample,
    predictor: JEIRT | SubjectIRT | None = None,
    *,
    twins: Mapping[str, str] | None = None,
    calibrate: bool = True,
    seed: int = 0,
    progress: Report | None = None,
) -> ItemBank:
    """Learns items, prior and misfit from a study.

    Args:
        study: The known models' responses.
        predictor: A fitted JE-IRT, or the settings of a SubjectIRT (the default), which is
            fitted here.
        twins: Model -> canonical name; models of one canonical name are left out together.
        calibrate: Whether to measure the misfit on left-out models; not for a JE-IRT, whose
            items are not refitted here (its intervals rest on the posterior alone).
        seed: Of the draws.
        progress: Called with (done, total, what).

    Raises:
        InputError: Fewer than 3 models, or a JE-IRT that was not fitted to these models.
    """
    sample = study if isinstance(study, Sample) else study_sample(study)
    groups = twin_groups(sample.responses.models, twins or {})
    settings: dict[str, object] = {}
    if isinstance(predictor, JEIRT):
        space = predictor.logit_space(sample.items)
        if space.models != sample.responses.models:
            raise InputError("the fit has other models than the study")
    else:
        settings = (predictor or SubjectIRT()).get_params()
        space = learn_items(sample, settings)
    prior = learn_prior(space, sample.responses, twins=groups, seed=seed, progress=progress)
    bank = ItemBank(space, prior, sample.responses, np.zeros(len(sample.items.benchmarks)))
    if not calibrate or isinstance(predictor, JEIRT):
        return bank
    folds = left_out_folds(
        sample, lambda s: learn_items(s, settings), prior, groups, seed=seed, progress=progress
    )
    return calibrate_bank(bank, folds, sample, seed)


def learn_items(sample: Sample, settings: Mapping[str, object] | None = None) -> LogitSpace:
    """A SubjectIRT's space of all items of the sample, also of those without an answer."""
    fit = SubjectIRT(**(settings or {})).fit(sample)  # type: ignore[arg-type]
    return fit.logit_space(sample.items)


def twin_groups(models: tuple[str, ...], canonical: Mapping[str, str]) -> NDArray[np.int64]:
    """(M,) group of each model: those of one canonical name are one."""
    names = [canonical.get(m, m) for m in models]
    code = {name: i for i, name in enumerate(dict.fromkeys(names))}
    return np.array([code[n] for n in names], np.int64)
