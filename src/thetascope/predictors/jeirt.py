"""JE-IRT (arXiv 2509.22888): models and items in one vector space.

    q_j = adapter(e_j)          adapter = Linear(D, H) -> ReLU -> Dropout -> Linear(H, d)
    r_j = rho(q_j), u_j = q_j / r_j,  rho(q) = sqrt(|q|^2 + eps^2)
    P_ij = sigmoid(u_j . m_i - r_j)                          `jeirt`, the paper's model
    P_ij = sigmoid(o_ib + c + u_j . m_i - r_j)               `jeirt_context`

u_j says what item j is about, r_j how hard it is. In `jeirt_context` (ours) o_ib is the logit
of the training data's shrunk model x benchmark mean and c is learnt: text alone does not
always give the benchmark away, and r_j becomes the difficulty within the benchmark.

Two options. `residual`: an item with responses has q_j = adapter(e_j) + delta_j
(`jeirt_residual`). `floor`: P_ij = f_ij + (1 - f_ij) sigmoid(logit_ij), f_ij = gamma_i g_j, with
g_j the item's chance level and gamma_i in [0, 1] learnt: chance is no bound for a model that
gives no answer or fails the format.

Training needs torch (extra `fit`); a fitted predictor predicts with numpy alone.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Literal, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, logit

from thetascope.errors import InputError
from thetascope.predictors.base import ItemFeatures, Predictor, Probabilities, Sample
from thetascope.predictors.jeirt_residual import Frozen, learn_residuals, warm_part
from thetascope.predictors.logit_space import LogitSpace
from thetascope.predictors.means import benchmark_means, clipped_means

GUARD = 1e-6
"""eps of rho: the norm is not differentiable at 0."""
_ROWS = 8192


class ItemSpace(NamedTuple):
    """Items in the learnt space.

    Attributes:
        direction: (N, d) u_j, of length 1 (less next to q = 0).
        norm: (N,) r_j.
    """

    direction: NDArray[np.float32]
    norm: NDArray[np.float32]


@dataclass
class JEIRT(Predictor):
    """Joint-embedding item response theory.

    Attributes:
        context: Whether to start from each model's mean on the benchmark (the offset); 'auto'
            does so from two benchmarks on.
        residual: Whether items with responses have a residual. Its tau is chosen on the
            validation responses to items that are learnt from (warm cells); where there are none
            (validation items are unseen, as when fitted to a study), on a random tenth of the
            training responses: the first stage has seen those, the residuals have not. 'auto':
            where validation responses are to items that are learnt from.
        floor: Whether the items' chance levels (items table, `chance`) are a floor, times a
            learnt share of each model.
        dim: Dimensions of the space (d); None for 128 with the offset and 256 without (chosen
            on validation data of four real sets).
        hidden: Hidden units of the adapter (H); None for twice the text vector's length.
        dropout: Share of hidden units dropped in training.
        learning_rate: Of AdamW, for the adapter and the model table.
        weight_decay: Of AdamW.
        gamma: Factor on the learning rate after every epoch.
        batch_items: Items a batch, each with all its responses; None for a 64th of the items,
            at least 32 and at most 512.
        max_epochs: Most epochs.
        patience: Epochs without a better validation log-loss before training stops.
        init_std: Standard deviation of the model table at the start.
        clip_norm: The gradient's global norm is clipped to this.
        seed: Of initialisation, batches and dropout.
        device: 'auto', 'cpu' or 'cuda'.
        vectors: Name of the study's text vectors; None for the only ones.
    """

    context: bool | Literal["auto"] = "auto"
    residual: bool | Literal["auto"] = "auto"
    floor: bool = False
    dim: int | None = None
    hidden: int | None = None
    dropout: float = 0.5
    learning_rate: float = 5e-4
    weight_decay: float = 0.01
    gamma: float = 0.95
    batch_items: int | None = None
    max_epochs: int = 100
    patience: int = 10
    init_std: float = 0.05
    clip_norm: float = 1.0
    seed: int = 0
    device: Literal["auto", "cpu", "cuda"] = "auto"
    vectors: str | None = None

    residuals_ = None

    NAME: ClassVar[str] = "jeirt"
    NEEDS: ClassVar[frozenset[str]] = frozenset({"vectors"})

    def __post_init__(self) -> None:
        for name, low in (
            ("dim", 1),
            ("batch_items", 1),
            ("max_epochs", 1),
            ("patience", 1),
            ("hidden", 1),
        ):
            value = getattr(self, name)
            if value is not None and (not isinstance(value, int) or value < low):
                raise InputError(f"expected a whole number from {low}, found {value!r}", field=name)
        for name, low, high in (
            ("dropout", 0.0, 0.99),
            ("learning_rate", 1e-12, 10.0),
            ("weight_decay", 0.0, 10.0),
            ("gamma", 1e-6, 1.0),
            ("init_std", 0.0, 100.0),
            ("clip_norm", 1e-12, 1e12),
        ):
            value = getattr(self, name)
            if not low <= value <= high:
                raise InputError(
                    f"expected a number from {low:g} to {high:g}, found {value!r}", field=name
                )
        for name in ("context", "residual"):
            value = getattr(self, name)
            if value not in (True, False, "auto"):
                raise InputError(f"expected true, false or 'auto', found {value!r}", field=name)

    @classmethod
    def preset(cls, name: str, **changes: Any) -> Self:
        """Settings by name: 'default', 'paper-mpnet' or 'paper-modernbert' (see `PRESETS`)."""
        if name not in PRESETS:
            raise InputError(f"no preset {name!r}; there are {', '.join(PRESETS)}")
        return cls(**{**PRESETS[name], **changes})

    def _fit(self, train: Sample, validation: Sample | None) -> Self:
        return self.fit_in(train, validation, None)

    def fit_in(self, train: Sample, validation: Sample | None, folder: Path | None) -> Self:
        from thetascope.predictors import jeirt_training

        train.items.text_vectors(self.NAME)
        train = train.answered()
        result = jeirt_training.train(self, train, validation, folder)
        self.log_ = result.log
        self._learn(train, result.weights)
        held = None if self.residual is False else warm_part(train, validation)
        if self.residual is True or held is not None:
            self.residuals_ = learn_residuals(self._frozen(train.items), train, held, self.seed)
        return self

    def _learn(self, train: Sample, weights: dict[str, NDArray[Any]]) -> Self:
        self.models_ = train.responses.models
        self.weights_, self.residuals_ = weights, None
        self.benchmarks_ = train.items.benchmarks
        self.offset_ = self.training_offset(train)
        self.default_offset_ = None if self.offset_ is None else logit(clipped_means(train))
        return self

    def _frozen(self, items: ItemFeatures) -> Frozen:
        """The first stage's items."""
        base = np.zeros((len(items), len(self.models_)))
        if self.offset_ is not None:
            base += float(self.weights_["offset"][0]) + self._offsets(items)
        q, models = self._embedded(items), self.weights_["models"]
        return Frozen(q.astype(np.float64), models.astype(np.float64), base, self._floors(items))

    def space_size(self, items: ItemFeatures) -> int:
        """d for a fit to these items."""
        return self.dim or (128 if self.uses_context(items) else 256)

    @property
    def dim_(self) -> int:
        """d of the fitted space."""
        return self.weights_["models"].shape[1]

    def batch_size(self, n_items: int) -> int:
        """Items a batch when `n_items` are learnt from."""
        return self.batch_items or min(max(n_items // 64, 32), 512)

    def uses_context(self, items: ItemFeatures) -> bool:
        """Whether the offset is used: as told, or from two benchmarks on."""
        if self.context == "auto":
            return len(np.unique(items.benchmark)) >= 2
        return bool(self.context)

    def label(self, items: ItemFeatures) -> str:
        """'jeirt_context' where the offset is used."""
        return "jeirt_context" if self.uses_context(items) else "jeirt"

    def training_offset(self, train: Sample) -> NDArray[np.float64] | None:
        """(M, B) o_ib, constant in training; None for the paper's model."""
        return logit(benchmark_means(train)) if self.uses_context(train.items) else None

    def chance_levels(self, items: ItemFeatures) -> NDArray[np.float64] | None:
        """(N,) g_j, or None without the floor.

        Raises:
            InputError: The floor is on and the items have no chance levels.
        """
        if not self.floor:
            return None
        if items.chance is None:
            raise InputError(f"{self.NAME} with a floor needs a column 'chance' in the items table")
        return items.chance

    def _floors(self, items: ItemFeatures) -> NDArray[np.float64] | None:
        """(N, M) f_ij = gamma_i g_j, or None."""
        chance = self.chance_levels(items)
        return None if chance is None else chance[:, None] * self.guessing_

    @property
    def guessing_(self) -> NDArray[np.float64]:
        """(M,) gamma_i, the share of the chance level that each model reaches."""
        return expit(self.weights_["guessing"].astype(np.float64))

    def item_space(self, items: ItemFeatures) -> ItemSpace:
        """Directions and norms of items: from their text vectors, and their residuals."""
        q = self._embedded(items)
        if self.residuals_ is not None:
            q = q + self.residuals_.of(items.ids)
        norm = np.sqrt(np.square(q).sum(axis=1) + np.float32(GUARD**2))
        return ItemSpace(q / norm[:, None], norm)

    def _embedded(self, items: ItemFeatures) -> NDArray[np.float32]:
        """(N, d) adapter(e_j)."""
        vectors = items.text_vectors(self.NAME)
        expected = self.weights_["adapter.0.weight"].shape[1]
        if vectors.shape[1] != expected:
            raise InputError(
                f"the fit was made from vectors of {expected} dimensions, these have"
                f" {vectors.shape[1]}"
            )
        return np.concatenate(
            [adapter(self.weights_, vectors[i : i + _ROWS]) for i in range(0, len(items), _ROWS)]
            or [np.zeros((0, self.dim_), np.float32)]
        )

    def logit_space(self, items: ItemFeatures) -> LogitSpace:
        """These items and the known models as designs and vectors.

        x_j = [u_j, one-hot benchmark] and theta_i = [m_i, o_i] with the offset (an unknown
        benchmark has a column for each model's mean), x_j = u_j without; c_j = c - r_j. With the
        floor `chance` is that of a model still to come: the known models' mean gamma times g_j.

        Args:
            items: The N items, with text vectors.
        """
        space = self.item_space(items)
        design, ability = space.direction, self.weights_["models"].astype(np.float64)
        intercept, blocks = -space.norm.astype(np.float64), (self.dim_,)
        if self.offset_ is not None:
            intercept += float(self.weights_["offset"][0])
            here = np.eye(len(items.benchmarks), dtype=np.float32)[items.benchmark]
            design = np.concatenate([design, here], axis=1)
            ability = np.concatenate([ability, self._offset_table(items)], axis=1)
            blocks = (self.dim_, len(items.benchmarks))
        chance = self.chance_levels(items)
        return LogitSpace(
            items.ids, items.benchmark, items.benchmarks, design, intercept, self.models_,
            ability, chance=None if chance is None else chance * self.guessing_.mean(),
            blocks=blocks,
        )  # fmt: skip

    def _predict(self, items: ItemFeatures) -> Probabilities:
        space = self.item_space(items)
        logits = space.direction @ self.weights_["models"].T - space.norm[:, None]
        logits = logits.astype(np.float64)
        if self.offset_ is not None:
            logits += float(self.weights_["offset"][0]) + self._offsets(items)
        floor = self._floors(items)
        return expit(logits) if floor is None else floor + (1 - floor) * expit(logits)

    def _offsets(self, items: ItemFeatures) -> NDArray[np.float64]:
        """(n, M) o_ib of each item."""
        return self._offset_table(items).T[items.benchmark]

    def _offset_table(self, items: ItemFeatures) -> NDArray[np.float64]:
        """(M, B) o_ib by the name of the benchmark; the model's mean for an unknown one."""
        assert self.offset_ is not None
        assert self.default_offset_ is not None
        known = {name: b for b, name in enumerate(self.benchmarks_)}
        table = np.stack(
            [
                self.offset_[:, known[name]] if name in known else self.default_offset_
                for name in items.benchmarks
            ]
        )
        return table.T

    @property
    def choices(self) -> dict[str, Any]:
        best = min(self.log_, key=lambda e: e["validation_log_loss"])
        chosen: dict[str, Any] = {"epochs": len(self.log_), "best_epoch": best["epoch"]}
        if self.residuals_ is not None:
            chosen["tau"] = self.residuals_.tau
        if self.floor:
            chosen["mean_guessing"] = round(float(self.guessing_.mean()), 4)
        return chosen


@dataclass
class PlainJEIRT(JEIRT):
    """The paper's model: no offset, no residual."""

    context: bool | Literal["auto"] = False
    residual: bool | Literal["auto"] = False


@dataclass
class ContextJEIRT(JEIRT):
    """JE-IRT with the offset of the model x benchmark mean."""

    context: bool | Literal["auto"] = True

    NAME: ClassVar[str] = "jeirt_context"
    NEEDS: ClassVar[frozenset[str]] = frozenset({"vectors", "benchmarks"})


def adapter(weights: dict[str, NDArray[Any]], vectors: NDArray[np.float32]) -> NDArray[np.float32]:
    """(n, d) item embeddings q = W2 relu(W1 e + b1) + b2."""
    hidden = vectors @ weights["adapter.0.weight"].T + weights["adapter.0.bias"]
    np.maximum(hidden, 0, out=hidden)
    return hidden @ weights["adapter.2.weight"].T + weights["adapter.2.bias"]


_PAPER: dict[str, Any] = {
    "context": False,
    "residual": False,
    "dim": 256,
    "weight_decay": 0.01,
    "max_epochs": 100,
    "patience": 10,
    "init_std": 1.0,
    "batch_items": 5,
}
PRESETS: dict[str, dict[str, Any]] = {
    "default": {},
    "paper-mpnet": {**_PAPER, "dropout": 0.4, "learning_rate": 5e-5, "gamma": 0.75},
    "paper-modernbert": {**_PAPER, "dropout": 0.5, "learning_rate": 3e-5, "gamma": 0.65},
}
"""The published recipes (the authors' settings span dropout .4-.5, rate 3e-5 to 5e-5 and gamma
.65-.75 over their two encoders). Their batch is 512 responses: 5 items of 112 models."""
