"""2PL against girth and py-irt (golden figures made by `make parity`)."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from thetascope.predictors.irt_fit import Fitted, Prior, Responses, fit_unidimensional

HERE = Path(__file__).resolve().parent
GIRTH = json.loads((HERE / "data" / "girth.json").read_text("utf-8"))
PYIRT = json.loads((HERE / "data" / "pyirt.json").read_text("utf-8"))
TOOL = HERE.parents[1] / "tools" / "make_parity_girth.py"


def fitted(case: dict[str, Any], sd: float = 0.5) -> Fitted:
    spec = importlib.util.spec_from_file_location("make_parity_girth", TOOL)
    assert spec is not None
    assert spec.loader is not None
    tool = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(tool)
    given = tool.simulate(case["n"], case["m"], case["share"], case["seed"])
    n = len(given)
    score = np.maximum(given, 0).astype(np.float32)
    weight = (given >= 0).astype(np.float32)
    data = Responses(score, weight, np.zeros(n, np.int64), np.zeros(n))
    return fit_unidimensional(data, Prior(True, sd))


@pytest.mark.parametrize("case", GIRTH, ids=lambda c: f"{c['n']}x{c['m']}")
def test_agrees_with_marginal_maximum_likelihood(case: dict[str, Any]) -> None:
    """Two estimators of the same thing: apart by a fraction of the standard error.

    girth has no prior on discriminations, so single ones differ by the shrinkage.
    """
    fit, a, b = fitted(case), np.array(case["a"]), np.array(case["b"])
    assert np.corrcoef(fit.a, a)[0, 1] > 0.999
    assert np.corrcoef(fit.b, b)[0, 1] > 0.9995
    assert abs(np.mean(fit.a / a) - 1) < 0.02
    assert np.abs(fit.b - b).max() < 0.1
    apart = (fit.alpha - np.log(a)) / np.sqrt(fit.covariance[:, 0, 0])
    assert np.sqrt(np.mean(apart**2)) < 0.4


@pytest.mark.parametrize("case", PYIRT, ids=lambda c: c["model"])
def test_agrees_with_variational_inference(case: dict[str, Any]) -> None:
    """py-irt's hierarchical priors shrink otherwise, so orders and lines are compared."""
    fit = fitted(case, 0.5 if case["model"] == "2pl" else 0.0)
    assert np.corrcoef(fit.theta, case["ability"])[0, 1] > 0.995
    assert np.corrcoef(-fit.b / fit.a, case["diff"])[0, 1] > 0.985
    if "disc" in case:
        assert np.corrcoef(fit.a, case["disc"])[0, 1] > 0.9
