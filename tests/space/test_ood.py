"""Leaving a benchmark out: who may learn from what, drops, alignment, correlation, repair."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from scipy.special import expit, logit
from scipy.stats import spearmanr
from tests.predictors.predictor_cases import make_sample

from thetascope.errors import InputError
from thetascope.evaluation import Estimate, Groups, metrics, near_duplicate_groups
from thetascope.predictors import JEIRT, Sample
from thetascope.space import expected_drop, ood
from thetascope.space.alignment import alignment, covering
from thetascope.space.fitted import unit
from thetascope.space.ood import PartDrop, correlations, ood_from_json
from thetascope.space.ood_fits import fold_of_part, level_shift, parts_of


def groups_of(sample: Sample) -> Groups:
    return near_duplicate_groups(
        np.full(len(sample.items), -1), sample.items.vectors, sample.items.benchmark
    )


def part(name: str, drop: float, mean: float, best: float = 0.5) -> PartDrop:
    e = Estimate(drop, drop, drop)
    return PartDrop(name, 10, 100, e, e, 0.5, 0.5, {0: e}, mean, best, [])


def test_alignment_by_hand() -> None:
    new = np.array([[1.0, 0.0], [0.0, 1.0]])
    known = np.array([[1.0, 0.0], [1.0, 0.0], [0.0, 1.0]])
    found = alignment(new, known)
    assert found.mean == pytest.approx([2 / 3, 1 / 3])
    assert found.best == pytest.approx([1.0, np.quantile([0, 0, 1], 0.99)])


def test_the_pool_has_a_fixed_size() -> None:
    """A maximum would grow with the pool; the 99th percentile of 1,000 does not."""
    rng = np.random.default_rng(0)
    new = unit(rng.normal(size=(50, 8)))
    small, large = (
        alignment(new, unit(rng.normal(size=(n, 8)))).best.mean() for n in (2000, 40000)
    )
    assert small == pytest.approx(large, abs=0.02)


def test_covering_by_hand() -> None:
    known = np.array([[1.0, 0], [0.9, 0.1], [0, 1.0], [-1.0, 0]])
    share = covering(np.array([[1.0, 0]]), known, np.array([2, 2, 0, 1]), 4, neighbours=3)
    assert share == pytest.approx([1 / 3, 0, 2 / 3, 0])


def test_a_shift_of_level_is_learnt_from_few_answers() -> None:
    rng = np.random.default_rng(0)
    base = rng.normal(size=(400, 12))
    true = -1.5 + 0.3 * rng.normal(size=12)
    score = (rng.random(base.shape) < expit(base + true)).astype(float)
    seen = np.ones(base.shape, bool)
    few = level_shift(expit(base[:10]), score[:10], seen[:10])
    many = level_shift(expit(base), score, seen)
    assert many == pytest.approx(true, abs=0.35)
    assert few.mean() == pytest.approx(true.mean(), abs=0.5)
    assert few.std() < many.std() + 0.1  # few answers move the common level, not each model


def test_no_answers_of_a_model_leave_it_at_the_common_shift() -> None:
    rng = np.random.default_rng(1)
    base = np.zeros((200, 4))
    score = (rng.random(base.shape) < 0.8).astype(float)
    seen = np.ones(base.shape, bool)
    seen[:, 3] = False
    shift = level_shift(expit(base), score, seen)
    assert shift[3] == pytest.approx(shift[:3].mean(), abs=0.1)
    assert shift[0] == pytest.approx(logit(score[:, 0].mean()), abs=0.3)


def test_the_left_out_part_and_its_near_duplicates_are_not_learnt_from(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pytest.importorskip("torch", reason="torch is not installed")
    sample = make_sample(n=300)
    vectors = sample.items.vectors
    assert vectors is not None
    mine, other = (np.flatnonzero(sample.items.benchmark == b)[0] for b in (0, 1))
    vectors[other] = vectors[mine]  # an item of b1 repeats one of b0
    groups = groups_of(sample)
    assert groups.labels[mine] == groups.labels[other]
    learnt: list[set[str]] = []
    original = JEIRT._fit

    def spy(self: JEIRT, train: Sample, validation: Sample | None) -> JEIRT:
        seen = set(train.items.ids)
        learnt.append(seen if validation is None else seen | set(validation.items.ids))
        return original(self, train, validation)

    monkeypatch.setattr(JEIRT, "_fit", spy)
    found = fold_of_part(sample, groups, parts_of(sample.items), JEIRT(max_epochs=1, dim=4), 0)
    whole, *apart = learnt
    assert len(apart) == len(found) == 3
    for p, seen in zip(found, apart, strict=True):
        tested = {sample.items.ids[j] for j in found[p].item}
        assert not tested & (seen | whole)
        assert not any(i.startswith(f"b{p}:") for i in seen)
    assert sample.items.ids[other] not in apart[0]


def test_drops_by_a_slow_count(tmp_path: Path) -> None:
    pytest.importorskip("torch", reason="torch is not installed")
    sample = make_sample(n=240, m=6)
    groups, predictor = groups_of(sample), JEIRT(max_epochs=3, dim=4, context=False)
    found = ood(sample, groups, predictor, seeds=2, folder=tmp_path)
    again = ood(sample, groups, predictor, seeds=2, folder=tmp_path)  # from the folder
    assert again == found
    assert ood_from_json(found.to_json()).to_json() == found.to_json()
    parts = parts_of(sample.items)
    for p, drop in enumerate(found.parts):
        value, plain, n = 0.0, 0.0, 0
        for seed in range(2):
            t = fold_of_part(sample, groups, parts, predictor, seed, tmp_path)[p]
            s, seen = sample.responses.filled()[t.item], sample.responses.observed[t.item]
            for j in range(len(t.item)):
                for i in range(6):
                    if seen[j, i]:
                        y = np.array([float(s[j, i])])

                        def loss(q: float, y: np.ndarray = y) -> float:
                            return float(metrics.cross_entropy(np.array([q]), y)[0])

                        gap = loss(t.without[j, i]) - loss(t.base_without[i])
                        value += gap - (loss(t.whole[j, i]) - loss(t.base_whole[i]))
                        plain += loss(t.without[j, i]) - loss(t.whole[j, i])
                        n += 1
        assert drop.n_responses == n
        assert drop.log_loss.value == pytest.approx(value / n)
        assert drop.repaired[0].value == pytest.approx(plain / n)
        assert drop.log_loss.low <= drop.log_loss.value <= drop.log_loss.high


def test_correlation_is_scipys_and_its_p_that_of_all_orders() -> None:
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=14), rng.normal(size=14)
    found = correlations([part(f"p{i}", y[i], x[i], -x[i]) for i in range(14)])
    expected = spearmanr(x, y)
    assert found["mean"].rho.value == pytest.approx(expected.statistic)
    assert found["best"].rho.value == pytest.approx(-expected.statistic)
    assert found["mean"].p == pytest.approx(expected.pvalue, abs=0.02)
    assert found["mean"].rho.low < expected.statistic < found["mean"].rho.high


def test_a_law_foretells_left_out_drops_and_noise_does_not() -> None:
    x = np.linspace(0, 1, 9)
    lawful = correlations([part(str(i), 0.4 - 0.3 * v, v) for i, v in enumerate(x)])["mean"]
    assert lawful.rho.value == pytest.approx(-1)
    assert lawful.error == pytest.approx(0, abs=1e-9)
    assert lawful.p < 0.001
    assert lawful.informative
    assert np.isnan(lawful.rho.low)  # at rho = -1 Fisher's z has no width: no interval
    flat = correlations([part(str(i), 0.1 * (-1) ** i, v) for i, v in enumerate(x)])["mean"]
    assert flat.error > flat.error_of_mean


def test_three_parts_have_no_correlation_and_two_no_drop() -> None:
    assert correlations([part(str(i), 0.1, 0.2) for i in range(3)]) == {}
    with pytest.raises(InputError, match="needs three benchmarks or subjects, the study has 1"):
        parts_of(_single())


def _single() -> object:
    from dataclasses import replace

    items = make_sample(benchmarks=1).items
    return replace(items, subject=np.zeros(len(items), np.int64), subjects=("b0",))


def test_new_questions_get_a_drop_and_say_who_covers_them() -> None:
    pytest.importorskip("torch", reason="torch is not installed")
    sample = make_sample(n=300, benchmarks=4)
    fit = JEIRT(max_epochs=3, dim=4, context=False).fit(sample)
    drops = [part(n, 0.3 - 0.2 * i, 0.1 * i) for i, n in enumerate(sample.items.benchmarks)]
    from thetascope.space.ood import Ood

    found = Ood("benchmark", 1, drops, [], correlations(drops))
    own = sample.items.take(np.flatnonzero(sample.items.benchmark == 2))
    told = expected_drop(found, fit, sample.items, own)
    assert told.covered_by[0][0] == "b2"
    slope, start = np.polyfit([p.mean for p in drops], [p.log_loss.value for p in drops], 1)
    assert told.drop.value == pytest.approx(start + slope * told.alignment)
    assert not told.informative  # four parts in order are p = .08: no reason to believe the line
    with pytest.raises(InputError, match="needs four benchmarks"):
        expected_drop(Ood("benchmark", 1, drops[:3], [], {}), fit, sample.items, own)


@pytest.mark.parametrize("seeds", [0, 11])
def test_seeds_out_of_range(seeds: int) -> None:
    sample = make_sample(n=100)
    with pytest.raises(InputError, match="expected 1 to 10"):
        ood(sample, groups_of(sample), JEIRT(), seeds=seeds)
