"""The default predictor: JE-IRT, MIRT with texts and weighted neighbours, blended.

    logit P_ij = sum_k w_k logit P^k_ij,   w_k >= 0, sum_k w_k = 1

The weights minimise the validation log-loss plus (c / n) |w - w0|^2, n validation items: with
few items they stay near w0. The sum is 1 and there is no intercept, so that a validation part
that happens to be harder cannot shift the level. Items without responses and items with
responses of their own are different tasks: for the first w0 is half JE-IRT and half MIRT with
texts, for the second half MIRT and half MIRT with texts; what was validated decides.

All members read the text vector with what it leaves out appended: sixteen surface features of
the text (`surface`) and the item's subject.

JE-IRT enters as the mean logit of fits from different seeds (one where items are known).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize
from scipy.special import expit, logit

from thetascope.errors import InputError
from thetascope.predictors.base import ItemFeatures, Predictor, Probabilities, Sample
from thetascope.predictors.irt import MIRT, TextMIRT
from thetascope.predictors.jeirt import JEIRT
from thetascope.predictors.knn import WeightedKNN
from thetascope.predictors.state import CONFIG

Array = NDArray[np.float64]
PULL = 20.0
"""c: validation items' worth of the pull to w0."""
COLD = {"jeirt": 0.5, "mirt_text": 0.5}
WARM = {"mirt": 0.5, "mirt_text": 0.5}
"""w0."""
SCALE = np.float32(0.2)
_CLIP = 0.002


@dataclass
class Blend(Predictor):
    """JE-IRT, MIRT (with and without texts) and weighted KNN, weights by validation log-loss.

    Attributes:
        fits: JE-IRT fits from different seeds, averaged.
        neighbours: Whether weighted KNN takes part.
        traits: Whether MIRT with texts takes part (and MIRT without, where items are known).
        features: Whether surface features and subject are appended to the text vectors.
        residual: Whether JE-IRT has item residuals (see `JEIRT`).
        floor: Whether JE-IRT has the items' chance levels as a floor.
        weighted: Whether weights are chosen; otherwise they are w0.
        max_epochs: Of every JE-IRT fit.
        seed: Of the first JE-IRT fit.
        vectors: Name of the study's text vectors; None for the only ones.
    """

    fits: int = 3
    neighbours: bool = True
    traits: bool = True
    features: bool = True
    residual: bool = False
    floor: bool = False
    weighted: bool = True
    max_epochs: int = 100
    seed: int = 0
    vectors: str | None = None

    NAME: ClassVar[str] = "blend"
    NEEDS: ClassVar[frozenset[str]] = frozenset({"vectors"})

    def __post_init__(self) -> None:
        if not isinstance(self.fits, int) or self.fits < 1:
            raise InputError(f"expected a whole number from 1, found {self.fits!r}", field="fits")

    def _fit(self, train: Sample, validation: Sample | None) -> Self:
        return self.fit_in(train, validation, None)

    def fit_in(self, train: Sample, validation: Sample | None, folder: Path | None) -> Self:
        train = train.answered()
        self.models_ = train.responses.models
        self.extension_ = Extension(train.items, self.NAME) if self.features else None
        train = self._extended(train)
        validation = None if validation is None else self._extended(validation)
        known = set(train.items.ids)
        warm = validation is not None and any(i in known for i in validation.items.ids)
        self.members_: dict[str, list[Predictor]] = {
            "jeirt": [
                JEIRT(
                    seed=self.seed + k,
                    max_epochs=self.max_epochs,
                    vectors=self.vectors,
                    residual=self.residual,
                    floor=self.floor,
                )
                for k in range(1 if warm else self.fits)
            ]
        }
        if self.traits:
            self.members_["mirt_text"] = [TextMIRT(vectors=self.vectors)]
        if self.traits and warm:
            self.members_["mirt"] = [MIRT()]
        if self.neighbours:
            self.members_["knn_weighted"] = [WeightedKNN(vectors=self.vectors)]
        for name, fits in self.members_.items():
            for k, member in enumerate(fits):
                part = None if folder is None else folder / f"{name}-{k}"
                fits[k] = _fitted(member, train, validation, part)
        prior = WARM if warm else COLD
        start = np.array([prior.get(name, 0.0) for name in self.members_])
        if not self.traits:
            start[0] = 1.0
        self.weights_ = start / start.sum()
        if self.weighted and validation is not None and len(self.weights_) > 1:
            self.weights_ = stack(self._logits(validation.items), validation, self.weights_, PULL)
        return self

    def _extended(self, sample: Sample) -> Sample:
        if self.extension_ is None:
            return sample
        return Sample(self.extension_(sample.items), sample.responses)

    def _logits(self, items: ItemFeatures) -> Array:
        """(K, n, M) logits of the members."""
        return np.stack(
            [
                np.mean([_logit(m.predict_proba(items)) for m in fits], axis=0)
                for fits in self.members_.values()
            ]
        )

    def _predict(self, items: ItemFeatures) -> Probabilities:
        if self.extension_ is not None:
            items = self.extension_(items)
        return expit(np.tensordot(self.weights_, self._logits(items), axes=1))

    @property
    def choices(self) -> dict[str, Any]:
        names = zip(self.members_, self.weights_.tolist(), strict=True)
        return {f"w_{name}": round(weight, 4) for name, weight in names}


def _fitted(
    member: Predictor, train: Sample, validation: Sample | None, folder: Path | None
) -> Predictor:
    """The member fitted, read from the folder where an earlier call finished it."""
    if folder is None:
        return member.fit(train, validation)
    if (folder / CONFIG).is_file():
        return type(member).load(folder)
    folder.mkdir(parents=True, exist_ok=True)
    member.fit_in(train, validation, folder)
    member.save(folder)
    return member


class Extension:
    """Appends surface features and the subject to text vectors.

    Surface features are standardised over the items it is made from and scaled by `SCALE`
    (text vectors have length 1). A value outside the range of those items counts as the range's
    end: a feature that all of them lack has no scale, and one item that has it would be predicted
    from that alone. A subject is an indicator, 0 everywhere for an unknown one.
    """

    def __init__(self, items: ItemFeatures, who: str):
        self.who = who
        self.subjects = tuple(items.subjects[s] for s in np.unique(items.subject))
        self.centre = self.scale = self.low = self.high = None
        if items.surface is not None:
            self.low, self.high = items.surface.min(axis=0), items.surface.max(axis=0)
            self.centre = items.surface.mean(axis=0)
            self.scale = np.maximum(items.surface.std(axis=0), 1e-6)

    def __call__(self, items: ItemFeatures) -> ItemFeatures:
        """The items with longer vectors."""
        parts = [items.text_vectors(self.who)]
        if self.centre is not None and self.scale is not None:
            if items.surface is None:
                raise InputError(
                    f"{self.who} learnt from texts and some of these items have none",
                    fix="attach their texts with: thetascope attach-texts",
                )
            within = np.clip(items.surface, self.low, self.high)
            parts.append(SCALE * (within - self.centre) / self.scale)
        place = {name: i for i, name in enumerate(self.subjects)}
        column = np.array([place.get(name, -1) for name in items.subjects], np.int64)
        column = column[items.subject]
        subject = np.zeros((len(items), len(place)), np.float32)
        rows = np.flatnonzero(column >= 0)
        subject[rows, column[rows]] = 1.0
        return replace(items, vectors=np.concatenate([*parts, subject], axis=1, dtype=np.float32))


def stack(logits: Array, validation: Sample, start: Array, pull: float) -> Array:
    """Weights on the simplex that minimise the validation log-loss plus the pull to `start`.

    Args:
        logits: (K, n, M).
        validation: n items with responses.
        start: (K,) where few items leave the weights.
        pull: Validation items' worth of the pull.
    """
    responses = validation.responses
    observed = responses.observed
    x = logits[:, observed].T
    score = responses.filled().astype(np.float64)[observed]
    weight = np.ones(len(score)) if responses.weights is None else responses.weights[observed]
    share = weight / weight.sum()
    strength = pull / int(observed.any(axis=1).sum())

    def loss(w: Array) -> tuple[float, Array]:
        z, gap = x @ w, w - start
        value = share @ (np.logaddexp(0, z) - score * z) + strength * gap @ gap
        return float(value), x.T @ (share * (expit(z) - score)) + 2 * strength * gap

    found: Any = minimize(
        loss,
        start,
        jac=True,
        method="SLSQP",
        bounds=[(0, 1)] * len(start),
        constraints=[
            {"type": "eq", "fun": lambda w: w.sum() - 1, "jac": lambda w: np.ones(len(w))}
        ],
        options={"ftol": 1e-10},
    )
    weights = np.clip(np.asarray(found.x, np.float64), 0, 1)
    return weights / weights.sum()


def _logit(p: Array) -> Array:
    return logit(np.clip(p, _CLIP, 1 - _CLIP))
