"""The service's paths: POST /v1/route, POST /v1/predict, GET /healthz, and its OpenAPI."""

# No `from __future__ import annotations`: FastAPI reads types that are made here at run time.
from collections.abc import Callable
from typing import Annotated, Any, Literal

import numpy as np
from numpy.typing import NDArray

from thetascope.decisions.routing.router import Answer, Router
from thetascope.errors import InputError, MissingExtra
from thetascope.service.limits import Guarded, Limits, error_body, to_bytes

try:
    from anyio import CapacityLimiter, to_thread
    from fastapi import FastAPI, Request
    from fastapi.exceptions import RequestValidationError
    from fastapi.responses import JSONResponse, Response
    from pydantic import BaseModel, ConfigDict, Field, create_model
    from starlette.exceptions import HTTPException
except ImportError:
    raise MissingExtra("Serving", "serve") from None

Encode = Callable[[list[str]], NDArray[np.float32]]
"""Texts to (n, D) vectors."""

_TEXT = 20_000
_VALUE = 1000.0


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)


class Problem(_Strict):
    """Why a request was refused."""

    code: str
    reason: str
    field: str | None = None


class Refusal(_Strict):
    """The body of every error."""

    error: Problem


class Health(_Strict):
    """What the service answers from."""

    status: Literal["ok"]
    predictor: str
    models: list[str]
    benchmarks: list[str]
    cost_unit: str | None
    dim: int


class Prediction(_Strict):
    """Predicted score and cost of every model."""

    chances: dict[str, float]
    costs: dict[str, float | None]
    cost_unit: str | None


class Decision(Prediction):
    """Which model to ask, and why."""

    model: str
    default: str
    best: str
    guarded: bool
    gap: float
    tau: float | None = Field(description="null: the default is never left")
    left_out: dict[str, str]


_REFUSALS: dict[int | str, dict[str, Any]] = {
    status: {"model": Refusal, "description": why}
    for status, why in (
        (400, "Not JSON, or not UTF-8"),
        (408, "The body came too slowly"),
        (409, "No candidate is left: cost or candidates exclude every model"),
        (413, "The body is too large"),
        (415, "Not application/json"),
        (422, "JSON of another form"),
        (429, "Too many requests"),
    )
}


def build_app(router: Router, encode: Encode | None, limits: Limits | None = None) -> Guarded:
    """The service as an ASGI application.

    Args:
        router: What it answers from.
        encode: Makes vectors of texts; None where vectors alone can be sent.
        limits: Of size and rate.
    """
    limits = limits or Limits()
    app = FastAPI(
        title="thetascope route",
        version="1",
        description="Which language model to ask. Read-only; nothing of a question is kept.",
        default_response_class=_Json,
        docs_url=None,
        redoc_url=None,
    )
    turns = CapacityLimiter(limits.at_once)
    text = encode is not None
    question, routed = _question_type(router, text), _routed_type(router, text)

    @app.get("/healthz", response_model=Health, responses={429: _REFUSALS[429]})
    async def health() -> Response:
        """Whether the service is up, and what it answers from."""
        return _Json({"status": "ok", "predictor": router.fit.NAME, "models": list(router.models),
                      "benchmarks": list(router.known.benchmarks), "dim": router.dim,
                      "cost_unit": router.costs.unit})  # fmt: skip

    @app.post("/v1/predict", response_model=Prediction, responses=_REFUSALS)
    async def predict(body: question) -> Response:  # type: ignore[valid-type]
        """Predicted score and cost of every model on a question."""
        answer = await to_thread.run_sync(_answer, router, encode, body, limiter=turns)
        return _Json({"chances": answer.chances, "costs": answer.costs,
                      "cost_unit": router.costs.unit})  # fmt: skip

    @app.post("/v1/route", response_model=Decision, responses=_REFUSALS)
    async def route(body: routed) -> Response:  # type: ignore[valid-type]
        """Which model to ask, and why."""
        answer = await to_thread.run_sync(_answer, router, encode, body, limiter=turns)
        return _Json({**answer.to_json(), "cost_unit": router.costs.unit})

    app.add_exception_handler(InputError, _no_candidate)
    app.add_exception_handler(RequestValidationError, _invalid)
    app.add_exception_handler(HTTPException, _other)
    app.add_exception_handler(Exception, _fault)
    return Guarded(app, limits)


class _Json(JSONResponse):
    def render(self, content: Any) -> bytes:
        return to_bytes(content)


def _question_type(router: Router, text: bool) -> Any:
    """{text, benchmark?} or {vector, benchmark?}: the schema has the study's benchmarks."""
    benchmarks = _one_of(router.known.benchmarks)
    like = (benchmarks | None, Field(default=None, description="What the question is like"))
    return _either(router, text, "Question", {"benchmark": like})


def _routed_type(router: Router, text: bool) -> Any:
    benchmarks = _one_of(router.known.benchmarks)
    models = _one_of(router.models)
    number = Field(default=0.0, ge=0, le=1e12, alias="lambda", allow_inf_nan=False,
                   description="Score that one unit of cost is worth")  # fmt: skip
    cost = Field(default=None, ge=0, le=1e12, allow_inf_nan=False,
                 description="Greatest predicted cost")  # fmt: skip
    named = Field(default=None, min_length=1, max_length=len(router.models))
    return _either(router, text, "Routed", {
        "benchmark": (benchmarks | None, None), "weight": (float, number),
        "max_cost": (float | None, cost), "candidates": (list[models] | None, named),
    })  # fmt: skip


def _one_of(names: tuple[str, ...]) -> Any:
    return Literal[names]  # the names are known at run time only


def _either(router: Router, text: bool, name: str, fields: dict[str, Any]) -> Any:
    words = Annotated[str, Field(min_length=1, max_length=_TEXT, pattern=r"\S")]
    value = Annotated[float, Field(ge=-_VALUE, le=_VALUE, allow_inf_nan=False)]
    by_text = create_model(f"{name}ByText", __base__=_Strict, text=(words, ...), **fields)
    if not router.dim:
        return by_text
    vector: Any = Annotated[list[value], Field(min_length=router.dim, max_length=router.dim)]
    by_vector = create_model(f"{name}ByVector", __base__=_Strict, vector=(vector, ...), **fields)
    return by_text | by_vector if text else by_vector


def _answer(router: Router, encode: Encode | None, body: Any) -> Answer:
    texts = [body.text] if hasattr(body, "text") else None
    if texts is None or encode is None:
        vectors = np.array([body.vector], np.float32)
    else:
        vectors = encode(texts)
    items = router.questions(texts=texts, vectors=vectors, benchmark=body.benchmark)
    return router.route(
        items,
        weight=getattr(body, "weight", 0.0),
        max_cost=getattr(body, "max_cost", None),
        candidates=getattr(body, "candidates", None),
    )[0]


async def _no_candidate(_: Request, error: Exception) -> Response:
    field = getattr(error, "field", None)
    return _Json(error_body("no_candidate", str(error), field), status_code=409)


async def _invalid(_: Request, error: Exception) -> Response:
    """The first fault of the form that was meant, without what was sent."""
    assert isinstance(error, RequestValidationError)
    vector = isinstance(error.body, dict) and "vector" in error.body and "text" not in error.body
    other = "ByText" if vector else "ByVector"
    faults = error.errors()
    meant = [f for f in faults if not any(str(p).endswith(other) for p in f["loc"])]
    first = (meant or faults)[0]
    if first["type"] == "json_invalid":
        return _Json(error_body("not_json", "the body is not JSON"), status_code=400)
    place = [str(p) for p in first["loc"] if p != "body"]
    where = ".".join(p for p in place if not p.endswith(("ByText", "ByVector")))
    return _Json(error_body("invalid", str(first["msg"]), where or None), status_code=422)


async def _other(_: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    code = {404: "not_found", 405: "wrong_method", 400: "not_json"}.get(error.status_code, "error")
    return _Json(error_body(code, str(error.detail)), status_code=error.status_code,
                 headers=error.headers)  # fmt: skip


async def _fault(_: Request, error: Exception) -> Response:
    return _Json(error_body("fault", f"a fault in thetascope: {type(error).__name__}"),
                 status_code=500)  # fmt: skip
