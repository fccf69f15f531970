"""A router: which model to ask, for a question that nobody has answered.

It is made from a study and a fit kept in it. Questions are told apart by text or by vector; a
vector alone leaves the surface features of its text unknown, which then are those of the
study's average text.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from thetascope.decisions.routing.costs import CostTable, predict_costs, study_costs
from thetascope.decisions.routing.evaluate import usable_responses
from thetascope.decisions.routing.policies import (
    Choice,
    Defaults,
    choose,
    gaps,
    learn_defaults,
    learn_tau,
)
from thetascope.decisions.routing.predictions import Places
from thetascope.errors import InputError
from thetascope.evaluation.splits import Cells
from thetascope.predictors.base import NEW, ItemFeatures, Predictor, Sample, study_sample
from thetascope.predictors.registry import make_predictor
from thetascope.predictors.saved import find_fit
from thetascope.predictors.surface import surface
from thetascope.study import Study
from thetascope.study.derived import vectors_name

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Answer:
    """What is said of one question.

    Attributes:
        model: The one to ask.
        default: The one without routing: best on the benchmark, or best on average.
        best: The one of greatest predicted utility.
        gap: Its utility less the default's.
        tau: What the gap must exceed for the default to be left.
        chances: model -> predicted score.
        costs: model -> predicted cost, None where it is not known.
        left_out: model -> why it was no candidate.
    """

    model: str
    default: str
    best: str
    gap: float
    tau: float
    chances: dict[str, float]
    costs: dict[str, float | None]
    left_out: dict[str, str]

    @property
    def guarded(self) -> bool:
        """Whether the guard kept the default although another model looked better."""
        return self.best != self.default and self.model == self.default

    def to_json(self) -> dict[str, Any]:
        """One object; an infinite tau is null (the default is never left)."""
        return {
            "model": self.model,
            "default": self.default,
            "best": self.best,
            "guarded": self.guarded,
            "gap": self.gap,
            "tau": self.tau if np.isfinite(self.tau) else None,
            "chances": self.chances,
            "costs": self.costs,
            "left_out": self.left_out,
        }


@dataclass(frozen=True)
class Router:
    """Predictor, defaults, guard and costs of a study.

    Attributes:
        models: M names.
        fit: The predictor.
        encoder: Name of the text vectors that it reads; None where it reads none.
        dim: Length of a vector; 0 where it reads none.
        known: Features of the study's items, for new ones like them.
        places: Guesses the benchmark of a question that comes without.
        mean_surface: (16,) surface features of the average text, or None.
        defaults: Best models without a look at the question.
        tau, tau_blind: Guard where the benchmark is told, and where it is not.
        costs: Predicted costs.
    """

    models: tuple[str, ...]
    fit: Predictor
    encoder: str | None
    dim: int
    known: ItemFeatures
    places: Places
    mean_surface: NDArray[np.float32] | None
    defaults: Defaults
    tau: float
    tau_blind: float
    costs: CostTable

    def questions(
        self,
        *,
        texts: Sequence[str] | None = None,
        vectors: NDArray[np.float32],
        benchmark: str | None = None,
        subject: str | None = None,
    ) -> ItemFeatures:
        """Features of n questions.

        Args:
            texts: n texts; None where only vectors are known.
            vectors: (n, D).
            benchmark: The study's benchmark that they are like; None to guess it.
            subject: Its subject within the benchmark.

        Raises:
            InputError: The benchmark or the subject is unknown, or the vectors do not fit.
        """
        names = self.known.benchmarks
        if benchmark is not None and benchmark not in names:
            raise InputError(
                f"{benchmark!r} is no benchmark of the study; there are {', '.join(names)}",
                field="benchmark",
            )
        if self.dim and (vectors.ndim != 2 or vectors.shape[1] != self.dim):
            raise InputError(
                f"expected {self.dim} numbers, found {vectors.shape[-1]}", field="vector"
            )
        if not np.isfinite(vectors).all():
            raise InputError("expected finite numbers", field="vector")
        n = len(vectors)
        looks = None
        if texts is not None:
            looks = surface(texts)
        elif self.mean_surface is not None:
            looks = np.tile(self.mean_surface, (n, 1))
        place = NEW if benchmark is None else benchmark
        topic = place if subject is None else f"{place}/{subject}"
        if subject is not None and topic not in self.known.subjects:
            raise InputError(f"{subject!r} is no subject of {place!r}", field="subject")
        nothing = np.zeros(n, np.int64)
        made = ItemFeatures(
            tuple(f"{NEW}:{i}" for i in range(n)), nothing, (place,), nothing, (topic,),
            vectors, np.ones(n, bool), surface=looks,
        )  # fmt: skip
        return made if benchmark is not None else self.places.guess(made)

    def route(
        self,
        items: ItemFeatures,
        *,
        weight: float = 0.0,
        max_cost: float | None = None,
        candidates: Sequence[str] | None = None,
    ) -> list[Answer]:
        """Which model to ask, for each of n questions of `questions`.

        Args:
            items: The questions.
            weight: lambda, score per unit of cost; models without a cost are left out above 0.
            max_cost: Predicted costs above this leave a model out.
            candidates: Models that may be chosen; None for all.

        Raises:
            InputError: A candidate is unknown, or no model is left.
        """
        p, cost = self.fit.predict_proba(items), self.costs.of(items)
        wanted, left_out = self._candidates(candidates, weight, max_cost)
        allowed = np.tile(wanted, (len(items), 1))
        if max_cost is not None:
            max_cost *= 1 + 1e-9  # means of equal prices differ in the last digits
            allowed &= cost <= max_cost
        utility = p - weight * cost if weight else p
        default, tau = self._default(items, allowed, weight * cost if weight else None)
        out: list[Answer] = []
        for j in range(len(items)):
            out.append(self._answer(j, p, cost, utility, allowed, default, tau, left_out, max_cost))
        return out

    def choose(self, items: ItemFeatures) -> Choice:
        """(n,) index of the model to ask, all models allowed, cost not looked at."""
        p = self.fit.predict_proba(items)
        allowed = np.ones(p.shape, bool)
        default, tau = self._default(items, allowed)
        best, gap = gaps(p, default, allowed)
        return np.where(gap > tau, best, default)

    def _default(
        self, items: ItemFeatures, allowed: NDArray[np.bool_], price: Array | None = None
    ) -> tuple[Choice, float]:
        """The best model by what is known without the question, less its price in score."""
        told = NEW not in items.benchmarks  # a guess has (new) among its names
        values = self.defaults.by_benchmark(items) if told else self.defaults.by_average(len(items))
        if price is not None:
            values = values - price
        some = np.count_nonzero(allowed, axis=1) > 0
        safe = np.where(some[:, None], allowed, True)
        return choose(values, safe), self.tau if told else self.tau_blind

    def _candidates(
        self, candidates: Sequence[str] | None, weight: float, max_cost: float | None
    ) -> tuple[NDArray[np.bool_], dict[str, str]]:
        if not (np.isfinite(weight) and weight >= 0):
            raise InputError(f"expected a number from 0, found {weight}", field="lambda")
        unknown = [c for c in candidates or () if c not in self.models]
        if unknown:
            raise InputError(
                f"{unknown[0]!r} is no model of the study; there are {', '.join(self.models)}",
                field="candidates",
            )
        wanted = np.ones(len(self.models), bool)
        left_out: dict[str, str] = {}
        for i, model in enumerate(self.models):
            if candidates is not None and model not in candidates:
                wanted[i] = False
            elif (weight or max_cost is not None) and not np.isfinite(self.costs.default[i]):
                wanted[i], left_out[model] = False, "its cost is not known"
        if not wanted.any():
            if left_out:
                raise InputError(
                    "no candidate has a cost (cost_usd, or tokens and prices, or prices)",
                    field="lambda" if weight else "max_cost",
                )
            raise InputError("no model is left to choose from", field="candidates")
        return wanted, left_out

    def _answer(
        self, j: int, p: Array, cost: Array, utility: Array, allowed: NDArray[np.bool_],
        default: Choice, tau: float, left_out: dict[str, str], max_cost: float | None,
    ) -> Answer:  # fmt: skip
        row = allowed[j]
        if not row.any():
            raise InputError(
                f"every model costs more than {max_cost:g} ({self.costs.unit})", field="max_cost"
            )
        best, gap = gaps(utility[j : j + 1], default[j : j + 1], row[None, :])
        chosen = int(best[0]) if gap[0] > tau else int(default[j])
        dear = {
            m: f"its cost is above {max_cost:g}"
            for i, m in enumerate(self.models)
            if max_cost is not None and np.isfinite(cost[j, i]) and cost[j, i] > max_cost
        }
        shown = [i for i in np.argsort(-p[j], kind="stable").tolist() if row[i]]
        return Answer(
            self.models[chosen],
            self.models[int(default[j])],
            self.models[int(best[0])],
            float(gap[0]),
            float(tau),
            {self.models[i]: float(p[j, i]) for i in shown},
            {self.models[i]: float(cost[j, i]) if np.isfinite(cost[j, i]) else None for i in shown},
            left_out | dear,
        )


def make_router(
    study: Study, predictor: str | Predictor = "blend", encoder: str | None = None
) -> Router:
    """A router from a study and a fit kept in it.

    tau is learnt on the items that the fit did not learn from, as in `evaluate_routing`.

    Args:
        study: The study, in a folder.
        predictor: What routes; a fit of it has to be in the study.
        encoder: Name of the text vectors; None for the only ones.

    Raises:
        InputError: There is no fresh fit of the predictor; the message has the command.
    """
    chosen = make_predictor(predictor)
    reads = "vectors" in chosen.get_params()
    name = vectors_name(study, encoder) if reads else None
    if reads:
        chosen.vectors = name  # type: ignore[attr-defined]
    kept = find_fit(study, chosen)
    if kept is None:
        raise InputError(
            f"the study keeps no fresh fit of {chosen.NAME} with its validation items",
            file=study.path,
            fix=f"make one with: thetascope fit {study.path} --predictor {chosen.NAME}",
        )
    sample = study_sample(study, name)
    held = np.isin(np.array(sample.items.ids, object), list(kept.held))
    train = sample.take(Cells(np.flatnonzero(~held)))
    defaults = learn_defaults(train)
    usable, _ = usable_responses(sample, None, "auto")
    rest = np.flatnonzero(held & (np.count_nonzero(usable, axis=1) > 0))
    places = Places(train.items)
    tau, blind = _guards(kept.fit, sample.take(Cells(rest)), usable[rest], defaults, places)
    items = sample.items
    looks = items.surface
    return Router(
        sample.responses.models,
        kept.fit,
        name,
        0 if items.vectors is None or not reads else items.vectors.shape[1],
        items,
        places,
        None if looks is None else looks.mean(axis=0),
        defaults,
        tau,
        blind,
        predict_costs(study_costs(study), items, np.arange(len(items))),
    )


def _guards(
    fit: Predictor, held: Sample, usable: NDArray[np.bool_], defaults: Defaults, places: Places
) -> tuple[float, float]:
    """tau where the benchmark is told, and where it is not."""
    if not len(held.items):
        return np.inf, np.inf
    score, rows = held.responses.filled().astype(np.float64), np.arange(len(held.items))
    found: list[float] = []
    for items, values in (
        (held.items, defaults.by_benchmark(held.items)),
        (places.guess(held.items), defaults.by_average(len(rows))),
    ):
        default = choose(values, usable)
        best, gap = gaps(fit.predict_proba(items), default, usable)
        found.append(learn_tau(gap, score[rows, best] - score[rows, default]))
    return found[0], found[1]
