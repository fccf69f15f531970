"""What the explorer's server computes: which model to ask, and where a new model stands."""

from __future__ import annotations

import json
import re
import tempfile
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from scipy.special import ndtri

from thetascope.decisions import ItemBank
from thetascope.decisions.onboarding import Onboarded, onboard
from thetascope.decisions.posterior import chances
from thetascope.decisions.routing.router import Router, make_router
from thetascope.encoders import encoder_for, load_vectors
from thetascope.errors import InputError, StaleError, ThetascopeError
from thetascope.explorer.tables import short
from thetascope.predictors.forecast import MeanInterval
from thetascope.predictors.registry import make_predictor
from thetascope.predictors.saved import find_fit
from thetascope.readers import read
from thetascope.report.gather import Missing
from thetascope.study import Study, store
from thetascope.study.derived import path_of

ROUTER = "blend"
"""The predictor that routes."""
LEVEL = 0.95
TEXT = 20_000
"""Most characters of a question."""
MOST_MODELS = 50
"""Most models of a file that is dropped on the page."""
N_NEAREST = 5
_FIELDS = {"text", "benchmark", "lambda", "max_cost", "candidates"}


class Refusal(Exception):
    """A question that cannot be answered, and why."""

    def __init__(self, code: str, reason: str, field: str | None = None, status: int = 422) -> None:
        super().__init__(reason)
        self.code, self.reason, self.field, self.status = code, reason, field, status


class Answers:
    """The answers of one study; what they need is read when the first is asked for."""

    def __init__(self, study: Study, bank: ItemBank | None, place: str) -> None:
        """Looks at what can be answered.

        Args:
            study: The study.
            bank: Its kept item bank.
            place: The study in the commands that are named.
        """
        self.study, self.bank = study, bank
        self.missing: dict[str, Missing] = {}
        if bank is None:
            self.missing["onboard"] = Missing(
                "The study keeps no item bank yet.", f"thetascope leaderboard {place}"
            )
        self._interval: MeanInterval | None = None
        lacking = self._lacking_router(place)
        if lacking is not None:
            self.missing["route"] = lacking
        self._router: Router | None = None
        self._encode: Any = None

    @property
    def given(self) -> tuple[str, ...]:
        """Which of 'onboard' and 'route' are answered."""
        return tuple(a for a in ("onboard", "route") if a not in self.missing)

    def _lacking_router(self, place: str) -> Missing | None:
        """Why no question can be routed; None where one can."""
        fit = f"thetascope fit {place} --predictor {ROUTER}"
        if not store.read_index(path_of(self.study)).derived.get("vectors"):
            return Missing("The study has no text vectors.", f"thetascope encode {place}")
        try:
            kept = find_fit(self.study, make_predictor(ROUTER))
        except (InputError, StaleError) as error:
            return Missing(f"{_upper(getattr(error, 'problem', str(error)))}.", fit)
        if kept is None:
            return Missing(f"The study keeps no fresh fit of {ROUTER}.", fit)
        self._interval = kept.interval
        try:
            vectors = load_vectors(self.study, path=self.study.path)
        except InputError as error:
            return Missing(f"{_upper(error.problem)}.", f"thetascope encode {place}")
        if vectors.encoder is None:
            why = "The text vectors were made elsewhere, so a question's cannot be made."
            return Missing(why, f"thetascope encode {place}")
        if find_spec("sentence_transformers") is None:
            why = "Encoding a question needs packages that are not installed."
            return Missing(why, "pip install 'thetascope[encode]'")
        return None

    def route(self, body: bytes) -> dict[str, Any]:
        """Which model to ask.

        Raises:
            Refusal: The body is no question, or no model is left.
        """
        self._check("route")
        asked = question(body)
        try:
            router = self._ready()
        except ThetascopeError as error:  # an encoder that is not on this machine, say
            raise Refusal("missing", str(error), status=409) from None
        text = asked["text"]
        try:
            items = router.questions(
                texts=[text], vectors=self._encode([text]), benchmark=asked.get("benchmark")
            )
            answer = router.route(
                items, weight=asked.get("lambda") or 0.0, max_cost=asked.get("max_cost"),
                candidates=asked.get("candidates"),
            )[0]  # fmt: skip
        except InputError as error:
            raise Refusal("no_answer", error.problem, error.field) from None
        return {**answer.to_json(), "cost_unit": router.costs.unit,
                "intervals": self._intervals(answer.chances)}  # fmt: skip

    def _ready(self) -> Router:
        if self._router is None:
            router = make_router(self.study, ROUTER)
            vectors = load_vectors(self.study, router.encoder, path=self.study.path)
            encoder = encoder_for(vectors)
            self._encode, self._router = encoder.encode, router
        return self._router

    def _intervals(self, shown: dict[str, float]) -> dict[str, list[float] | None]:
        """95 % of a model's mean score on many questions like this one, by the kept fit.

        The fit's own error on a whole benchmark, beyond luck, is tau (`MeanInterval.shift`), learnt
        on items that no choice has seen. None where it is 0: then nothing was learnt of it.
        """
        shift = 0.0 if self._interval is None else self._interval.shift
        if not shift > 0:
            return dict.fromkeys(shown)
        reach = float(ndtri((1 + LEVEL) / 2)) * shift
        return {m: [max(p - reach, 0.0), min(p + reach, 1.0)] for m, p in shown.items()}

    def onboard(self, data: bytes, name: str) -> list[dict[str, Any]]:
        """Where the models of a results file stand.

        Args:
            data: The file.
            name: What it was called: formats are told apart by endings and names.

        Raises:
            Refusal: It cannot be read, or holds no answer to an item of the study.
        """
        self._check("onboard")
        assert self.bank is not None
        if not data:
            raise Refusal("empty", "the file is empty")
        with tempfile.TemporaryDirectory(prefix="thetascope-") as folder:
            place = Path(folder) / file_name(name)
            place.write_bytes(data)
            try:
                found = read(place)
            except ThetascopeError as error:
                raise Refusal("unreadable", _without(_told(error), folder)) from None
            except RecursionError:
                raise Refusal("unreadable", "it is nested too deep") from None
        models = found.models["model"].to_list()
        if len(models) > MOST_MODELS:
            raise Refusal("too_many", f"the file holds {len(models):,} models, more than"
                          f" {MOST_MODELS}")  # fmt: skip
        try:
            return [self._placed(onboard(self.bank, found, model=m, level=LEVEL)) for m in models]
        except InputError as error:
            reason = error.problem if error.field is None else f"{error.field}: {error.problem}"
            raise Refusal("no_answers", reason) from None

    def _placed(self, found: Onboarded) -> dict[str, Any]:
        given = found.given
        scores = [
            {
                "benchmark": s.benchmark, "estimate": s.value, "low": s.low, "high": s.high,
                "n": s.n_answered, "observed": s.mean_answered,
            }
            for s in found.scores
        ]  # fmt: skip
        return {
            "model": given.model, "known_already": given.model in found.bank.space.models,
            "calibrated": found.bank.calibrated, "n_used": len(given.answers),
            "unknown": len(given.unknown), "scores": short(scores, 4), "nearest": self._near(found),
        }  # fmt: skip

    def _near(self, found: Onboarded) -> list[list[Any]]:
        """The models whose predicted scores go along the most with the new one's.

        The correlation over all items of what each is predicted above the models' average there.
        """
        space = found.bank.space
        known = chances(space.design @ space.theta.T + space.intercept[:, None],
                        None if space.chance is None else space.chance[:, None])[0]  # fmt: skip
        usual = known.mean(axis=1)
        own = found.predict_proba() - usual
        rest = known - usual[:, None]
        own, rest = own - own.mean(), rest - rest.mean(axis=0)
        size = np.linalg.norm(own) * np.linalg.norm(rest, axis=0)
        likeness = np.where(size > 1e-12, (own @ rest) / np.maximum(size, 1e-12), 0.0)
        order = [
            m for m in np.argsort(-likeness, kind="stable").tolist()
            if space.models[m] != found.given.model
        ]  # fmt: skip
        return [[space.models[m], short(float(likeness[m]))] for m in order[:N_NEAREST]]

    def _check(self, what: str) -> None:
        lacking = self.missing.get(what)
        if lacking is not None:
            raise Refusal("missing", f"{lacking.why} Make it with: {lacking.command}", status=409)


def question(body: bytes) -> dict[str, Any]:
    """The question in a request's body.

    Raises:
        Refusal: It is not of the form {text, benchmark?, lambda?, max_cost?, candidates?}.
    """
    try:
        held = json.loads(body.decode("utf-8"))
    except (ValueError, RecursionError):
        raise Refusal("not_json", "the body is not JSON in UTF-8", status=400) from None
    if not isinstance(held, dict):
        raise Refusal("invalid", "expected an object")
    unknown = sorted(held.keys() - _FIELDS)
    if unknown:
        raise Refusal("invalid", f"expected {', '.join(sorted(_FIELDS))}", unknown[0][:80])
    text = held.get("text")
    if not isinstance(text, str) or not text.strip() or len(text) > TEXT:
        raise Refusal("invalid", f"expected a text of 1 to {TEXT:,} characters", "text")
    if any(0xD800 <= ord(c) < 0xE000 for c in text):
        raise Refusal("invalid", "expected whole characters, found half of a pair", "text")
    for field in ("lambda", "max_cost"):
        value = held.get(field)
        if value is not None and (
            isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= 1e12
        ):
            raise Refusal("invalid", "expected a number from 0 to 1e12", field)
    benchmark, candidates = held.get("benchmark"), held.get("candidates")
    if benchmark is not None and not isinstance(benchmark, str):
        raise Refusal("invalid", "expected a benchmark's name", "benchmark")
    if candidates is not None and not (
        isinstance(candidates, list) and candidates and all(isinstance(c, str) for c in candidates)
    ):
        raise Refusal("invalid", "expected a list of models' names", "candidates")
    return held


def file_name(name: str) -> str:
    """A name that a file in a folder of its own may have: plain letters, no path in it."""
    last = re.split(r"[/\\]", name)[-1]
    plain = re.sub(r"[^A-Za-z0-9._-]", "_", last).lstrip(".")[-120:].lstrip(".")
    return plain or "results"


def _told(error: ThetascopeError) -> str:
    """What is wrong, without a hint at the command's options: the page has none."""
    fix = getattr(error, "fix", None) or ""
    return str(error).removesuffix(f" ({fix})") if "--" in fix else str(error)


def _without(text: str, folder: str) -> str:
    """A message without the folder that only existed for a moment."""
    return text.replace(f"{folder}/", "").replace(folder, "the file")


def _upper(text: str) -> str:
    return text[:1].upper() + text[1:]
