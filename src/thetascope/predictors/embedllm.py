"""EmbedLLM (arXiv 2410.02223): the text's projection times the model's vector, then a linear
classifier, with noise on the text vector in training.

    logit_ij = w . ((A e_j + a) * v_i) + b

Trained by AdamW on the cross-entropy, batched by item. Needs torch (extra `fit`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
from scipy.special import expit

from thetascope.predictors.base import ItemFeatures, Predictor, Probabilities, Sample


@dataclass
class EmbedLLM(Predictor):
    """Matrix factorisation with text.

    Attributes:
        dim: Dimensions of the model vectors.
        noise: Standard deviation of the noise on the text vector, as a share of its spread.
        learning_rate: Of AdamW.
        weight_decay: Of AdamW.
        batch_items: Items a batch.
        max_epochs, patience: As in JE-IRT.
        seed: Of initialisation, batches and noise.
        vectors: Name of the study's text vectors; None for the only ones.
    """

    dim: int = 232
    noise: float = 0.05
    learning_rate: float = 1e-3
    weight_decay: float = 0.01
    batch_items: int = 128
    max_epochs: int = 100
    patience: int = 10
    seed: int = 0
    vectors: str | None = None

    NAME: ClassVar[str] = "embedllm"
    NEEDS: ClassVar[frozenset[str]] = frozenset({"vectors"})

    def _fit(self, train: Sample, validation: Sample | None) -> Self:
        from thetascope.predictors.embedllm_training import train as run

        self.models_ = train.responses.models
        train.items.text_vectors(self.NAME)
        self.weights_, self.log_ = run(self, train, validation)
        return self

    @property
    def choices(self) -> dict[str, Any]:
        best = min(self.log_, key=lambda e: e["validation_log_loss"])
        return {"epochs": len(self.log_), "best_epoch": best["epoch"]}

    def _predict(self, items: ItemFeatures) -> Probabilities:
        w = self.weights_
        text = items.text_vectors(self.NAME) @ w["projection.weight"].T + w["projection.bias"]
        logits = text @ (w["models"] * w["classifier.weight"]).T + w["classifier.bias"]
        return expit(logits.astype(np.float64))
