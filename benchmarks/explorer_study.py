"""A made study for the explorer: any size, every part that its pages show, hostile names.

    python -m benchmarks.explorer_study FOLDER [--items 36000 --models 112 --concepts 16384
        --active 200 --benchmarks 10 --subjects 57 --seed 0] [--no-texts] [--no-space]
        [--no-gaps] [--groups] [--bank]

Everything lies where the library keeps it, under its own manifests: items with texts, responses,
text vectors, a JE-IRT fit, concept activations with contexts, the taxonomy, the map of models, a
probe, gaps, and on demand groups and an item bank. Nothing is trained, so nothing needs torch:
the fit is the space that the answers were drawn from. What comes out depends on the arguments
alone.

Planted, so that the pages have something to find: own gaps of one model, concepts hard for all,
concepts that a benchmark lacks, items with a wrong key, two models that answer alike, near-equal
texts, a model that ran part of the benchmarks.
"""

from __future__ import annotations

import argparse
import shutil
import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import polars as pl
from numpy.typing import NDArray

from benchmarks.explorer_concepts import Activations, draw_activations, keep_concepts
from thetascope.decisions.saved import study_bank
from thetascope.encoders import import_vectors
from thetascope.gaps.grouping_saved import group_study
from thetascope.gaps.saved import gaps_study
from thetascope.predictors.jeirt import PlainJEIRT
from thetascope.predictors.saved import FITS, fit_settings
from thetascope.space.saved import SPACE, models_study, probe_study, taxonomy_study
from thetascope.study import Study, store
from thetascope.study.derived import keep

Array = NDArray[np.float64]

HOSTILE_MODELS = ("<script>alert(1)</script>\"'", "<img src=x onerror=window.pwned=1>")
HOSTILE_BENCHMARK = 'bench <b>bold</b> & "quoted"'
HOSTILE_SUBJECT = "'\"><svg onload=window.pwned=1>"
HOSTILE_TEXT = "</script><script>window.pwned=1</script> What is 2 + 2? {{pwned}} \u202eback"
HOSTILE_FAMILY = "<iframe src=javascript:window.pwned=1>"
VECTORS = "made"
_WORDS = (
    "add", "force", "verse", "market", "cell", "treaty", "angle", "loop", "bond", "vote", "star",
    "rhyme", "tax", "gene", "wave", "law",
)  # fmt: skip


@dataclass(frozen=True)
class Plan:
    """How large, and what is in it.

    Attributes:
        n_items, n_models, n_concepts: Their numbers.
        n_active: Concepts active on an item, on average.
        n_benchmarks, n_subjects: Subjects are dealt to benchmarks in turn.
        dim: Length of a text vector, and of the space.
        texts: Whether items have texts.
        seed: Of everything.
    """

    n_items: int = 36_000
    n_models: int = 112
    n_concepts: int = 16_384
    n_active: int = 200
    n_benchmarks: int = 10
    n_subjects: int = 57
    dim: int = 64
    texts: bool = True
    seed: int = 0


SMALL = Plan(n_items=600, n_models=12, n_concepts=512, n_active=40, n_benchmarks=3, n_subjects=9,
             dim=16)  # fmt: skip
"""Made in seconds: what the tests look at."""


class Truth(NamedTuple):
    """What answers are drawn from.

    Attributes:
        subject: (N,) of each item.
        q: (N, d) items, models: (M, d) models, of the space.
        score: (N, M) NaN where a model did not answer.
        wrong: Items whose key is wrong.
    """

    subject: NDArray[np.int64]
    q: Array
    models: Array
    score: Array
    wrong: NDArray[np.int64]


def make(
    folder: Path, plan: Plan = SMALL, *, space: bool = True, taxonomy: bool = True,
    gaps: bool = True, groups: bool = False, bank: bool = False,
    tell: Callable[[str], None] | None = None,
) -> Path:  # fmt: skip
    """Makes the study in a new folder and returns it.

    Args:
        folder: Where; it must not be there.
        plan: How large.
        space: Whether it has text vectors and a fit.
        taxonomy: Whether it also has a taxonomy, a map of models and a probe.
        gaps: Whether it has concept activations and gaps.
        groups, bank: Whether it has groups of concepts, an item bank.
        tell: Called with each step and its seconds.
    """
    assert not folder.exists(), f"{folder} is there already"
    rng = np.random.default_rng(plan.seed)
    last = time.perf_counter()

    def step(what: str) -> None:
        nonlocal last
        now = time.perf_counter()
        if tell is not None:
            tell(f"{what}: {now - last:.1f} s")
        last = now

    subject = np.sort(rng.integers(0, plan.n_subjects, plan.n_items))
    held = draw_activations(subject, plan.n_concepts, plan.n_active, plan.n_benchmarks, rng)
    truth = draw_answers(plan, subject, held, rng)
    step("drawn")
    study = study_of(plan, truth, rng).save(folder)
    step("study saved")
    if space:
        _keep_vectors(folder, study, _rotation(plan).T @ truth.q.T)
        _keep_fit(folder, plan, truth)
        step("vectors and fit kept")
    if space and taxonomy:
        taxonomy_study(folder, fit=SPACE, k=min(12, plan.n_subjects))
        step("taxonomy")
        models_study(folder, fit=SPACE)
        step("map of models")
        first, second = _subject_names(plan)[1:3]
        probe_study(folder, f"subject:{first}", f"subject:{second}", fit=SPACE)
        step("probe")
    if gaps:
        keep_concepts(folder, held, rng)
        step("activations kept")
        gaps_study(folder)
        step("gaps")
    if groups:
        group_study(folder)
        step("groups")
    if bank:
        study_bank(folder)
        step("bank")
    return folder


def draw_answers(
    plan: Plan, subject: NDArray[np.int64], held: Activations, rng: np.random.Generator
) -> Truth:
    """Draws items and models of a space, and answers that follow it and the planted gaps.

    Args:
        plan: How large.
        subject: (N,) of each item.
        held: Activations of the same items.
        rng: Source of chance.
    """
    n, m, d = plan.n_items, plan.n_models, plan.dim
    mean = np.eye(d)[0]
    centres = _unit(rng.normal(size=(plan.n_subjects, d)))
    u = _unit(1.2 * mean + centres[subject] + 0.7 * rng.normal(size=(n, d)) / np.sqrt(d))
    norm = 0.3 + rng.gamma(2.0, 0.6, n)
    models = np.linspace(0.8, 4.5, m)[:, None] * mean + 1.2 * rng.normal(size=(m, d)) / np.sqrt(d)
    models += (rng.normal(size=(m, plan.n_subjects)) * 0.5) @ centres / np.sqrt(plan.n_subjects)
    weak = m // 2
    models[weak] += 2.0 * mean
    chance = 1 / (1 + np.exp(-(u @ models.T - norm[:, None])))
    for concept in held.own:
        chance[held.items_of(int(concept)), weak] -= 0.5
    for concept in held.hard:
        chance[held.items_of(int(concept))] -= 0.2
    score = (rng.random((n, m)) < chance.clip(0.02, 0.98)).astype(np.float64)
    wrong = np.sort(rng.choice(n, max(2, n // 200), replace=False))
    score[wrong] = 1 - score[wrong]
    if m > 5:  # one answers as another does
        copied = rng.random(n) < 0.97
        score[copied, 3] = score[copied, 4]
    benchmark = subject % plan.n_benchmarks
    score[benchmark == plan.n_benchmarks - 1, 1] = np.nan
    score[rng.random((n, m)) < 0.01] = np.nan
    return Truth(subject, u * norm[:, None], models, score, wrong)


def study_of(plan: Plan, truth: Truth, rng: np.random.Generator) -> Study:
    """The tables; names that a page could take for markup are among them."""
    n, benchmark = plan.n_items, truth.subject % plan.n_benchmarks
    benchmarks = [f"bench {b}" for b in range(plan.n_benchmarks)]
    benchmarks[0] = HOSTILE_BENCHMARK
    names, families = _model_names(plan)
    subjects = np.array(_subject_names(plan), object)
    source = [f"q{j}" for j in range(n)]
    source[1] = "../../<b>1</b>?x=1&y=2#z"
    items = pl.DataFrame(
        {
            "source_id": source,
            "benchmark": [benchmarks[b] for b in benchmark],
            "subject": subjects[truth.subject].tolist(),
            **({"text": _texts(plan, truth.subject, rng)} if plan.texts else {}),
        }
    ).with_columns(item_id=pl.concat_str("benchmark", "source_id", separator=":"))
    item, model = np.nonzero(np.isfinite(truth.score))
    responses = pl.DataFrame(
        {
            "item_id": items["item_id"].gather(item),
            "model": pl.Series(names).gather(model),
            "score": truth.score[item, model],
        }
    )
    place = np.arange(plan.n_models)
    models = pl.DataFrame(
        {
            "model": names,
            "family": families,
            "params_b": [None if k % 7 == 6 else float(2 ** (k % 8)) for k in place.tolist()],
            "price_in_usd_per_mtok": np.round(0.1 * 1.05**place, 3),
            "price_out_usd_per_mtok": np.round(0.4 * 1.05**place, 3),
            "release": [f"2025-{1 + k % 12:02}-01" for k in place.tolist()],
        }
    )
    return Study.from_tables(responses, items, models)


def _keep_vectors(folder: Path, study: Study, vectors: Array) -> None:
    """Puts (D, N) vectors into the study as vectors made elsewhere."""
    with tempfile.TemporaryDirectory() as aside:
        file, ids = Path(aside) / f"{VECTORS}.npy", Path(aside) / "ids.txt"
        np.save(file, vectors.T.astype(np.float32))
        ids.write_text("\n".join(study.items["item_id"]) + "\n")
        import_vectors(folder, file, name=VECTORS, ids=ids)


def _keep_fit(folder: Path, plan: Plan, truth: Truth) -> None:
    """Keeps the planted space as a fit: q = R e through the adapter's two layers."""

    def make(study: Study, work: Path) -> dict[str, Any]:
        fit = PlainJEIRT(dim=plan.dim)
        rotation, eye = _rotation(plan), np.eye(plan.dim)
        zeros = np.zeros(2 * plan.dim, np.float32)
        fit.models_ = study.matrix().models
        order = [_model_names(plan)[0].index(name) for name in fit.models_]
        fit.weights_ = {
            "adapter.0.weight": np.concatenate([eye, -eye]).astype(np.float32),
            "adapter.0.bias": zeros,
            "adapter.2.weight": np.concatenate([rotation, -rotation], axis=1).astype(np.float32),
            "adapter.2.bias": zeros[: plan.dim],
            "models": truth.models[order].astype(np.float32),
        }
        fit.benchmarks_ = tuple(study.benchmarks)
        fit.offset_ = fit.default_offset_ = None
        fit.log_ = [{"epoch": 0, "train_loss": 0.0, "validation_log_loss": 0.0}]
        fit.save(work)
        return {"predictor": fit.NAME, "choices": fit.choices}

    settings = {**fit_settings(PlainJEIRT(dim=plan.dim)), "planted": plan.seed}
    keep(folder, FITS, SPACE, make, needs=[f"vectors/{VECTORS}"], settings=settings)


def _model_names(plan: Plan) -> tuple[list[str], list[str]]:
    names = [f"maker-{k % 9}/model-{k:03}" for k in range(plan.n_models)]
    families = [f"family {k % 9}" for k in range(plan.n_models)]
    middle = plan.n_models // 2
    for turn, name in enumerate(HOSTILE_MODELS[: plan.n_models - 1]):
        names[middle + turn] = name
    families[0] = HOSTILE_FAMILY
    return names, families


def _subject_names(plan: Plan) -> list[str]:
    names = [f"{_WORDS[s % len(_WORDS)]} {s}" for s in range(plan.n_subjects)]
    names[0] = HOSTILE_SUBJECT
    return names


def _texts(plan: Plan, subject: NDArray[np.int64], rng: np.random.Generator) -> list[str]:
    """Questions in the words of their subject; every 97th is a copy of the one before."""
    other = rng.integers(0, len(_WORDS), (plan.n_items, 6))
    numbers = rng.integers(2, 10_000, (plan.n_items, 2))
    texts: list[str] = []
    for j, s in enumerate(subject.tolist()):
        words = " ".join(_WORDS[k] for k in other[j])
        a, b = numbers[j].tolist()
        texts.append(
            f"Question {j} on {_WORDS[s % len(_WORDS)]}: given {words} of {a}, which {words[:12]}"
            f" has {b}?\n(A) {a}\n(B) {b}\n(C) {a + b}\n(D) none of these"
        )
        if j % 97 == 96:
            texts[j] = texts[j - 1]
    texts[0] = HOSTILE_TEXT
    texts[-1] = "" if plan.n_items < 3 else "A long one. " + "many words here " * 400
    return texts


def _rotation(plan: Plan) -> Array:
    """(d, d) from text vectors to the space."""
    drawn = np.random.default_rng(plan.seed + 1).normal(size=(plan.dim, plan.dim))
    return np.linalg.qr(drawn)[0]


def _unit(rows: Array) -> Array:
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


def main() -> None:
    """Makes one and says how long each step took."""
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    for name, value in asdict(Plan()).items():
        if name != "texts":
            parser.add_argument(f"--{name.removeprefix('n_')}", type=int, default=value, dest=name)
    for name in ("texts", "space", "gaps"):
        parser.add_argument(f"--no-{name}", action="store_false", dest=name)
    for name in ("groups", "bank", "replace"):
        parser.add_argument(f"--{name}", action="store_true")
    given = vars(parser.parse_args())
    plan = Plan(**{k: given[k] for k in asdict(Plan())})
    if given["replace"] and store.is_study(given["folder"]):
        shutil.rmtree(given["folder"])
    start = time.perf_counter()
    make(given["folder"], plan, space=given["space"], gaps=given["gaps"], groups=given["groups"],
         bank=given["bank"], tell=lambda line: print(line, flush=True))  # fmt: skip
    print(f"made in {time.perf_counter() - start:.0f} s: {given['folder']}")


if __name__ == "__main__":
    main()
