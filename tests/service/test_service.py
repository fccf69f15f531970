"""The routing service: what it answers, what it refuses, and its OpenAPI under schemathesis."""

from __future__ import annotations

import json
import logging
import os
import signal
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

import numpy as np
import polars as pl
import pytest

pytest.importorskip("fastapi", reason="the extra serve is not installed")
pytest.importorskip("schemathesis", reason="schemathesis is not installed")

import httpx
import schemathesis
from schemathesis import engine
from schemathesis.engine import events

from thetascope.cli import main
from thetascope.decisions.routing.router import make_router
from thetascope.service.app import build_app
from thetascope.service.limits import Guarded, Limits, Rates
from thetascope.study import Study

N, DIM = 200, 6


def made_study(folder: Path) -> Path:
    """Two benchmarks, four models (one without a price), vectors that tell who is right."""
    rng = np.random.default_rng(0)
    vectors = rng.normal(size=(N, DIM)).astype(np.float32)
    chance = 1 / (1 + np.exp(-2 * vectors @ rng.normal(size=(DIM, 4))))
    frame = pl.DataFrame(
        [(f"b{i % 2}:{i}", f"m{m}", int(rng.random() < chance[i, m]), f"question {i}?")
         for i in range(N) for m in range(4)],
        schema=["item_id", "model", "score", "text"], orient="row",
    )  # fmt: skip
    folder.mkdir(exist_ok=True)
    study = folder / "study"
    models = pl.DataFrame({"model": [f"m{m}" for m in range(4)],
                           "price_out_usd_per_mtok": [1.0, 2.0, 3.0, None]})  # fmt: skip
    items = frame.select("item_id", "text").unique(maintain_order=True)
    items = items.with_columns(pl.col("item_id").str.split(":").list.first().alias("benchmark"))
    Study.from_tables(frame.drop("text"), items, models).save(study)
    np.save(folder / "v.npy", vectors)
    (folder / "ids.txt").write_text("\n".join(items["item_id"]))
    assert main(["encode", str(study), "--vectors", str(folder / "v.npy"), "--ids",
                 str(folder / "ids.txt")]) == 0  # fmt: skip
    assert main(["fit", str(study), "--predictor", "knn_weighted"]) == 0
    return study


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return made_study(tmp_path_factory.mktemp("service"))


@pytest.fixture(scope="module")
def app(study: Path) -> Guarded:
    router = make_router(Study.open(study), "knn_weighted")

    def encode(texts: list[str]) -> np.ndarray:
        rows = [np.random.default_rng(len(t)).normal(size=DIM) for t in texts]
        return np.array(rows, np.float32)

    return build_app(router, encode, Limits(rate=0))


def call(app: Guarded, method: str, path: str, **given: object) -> httpx.Response:
    """One request without a socket."""
    import asyncio

    async def go() -> httpx.Response:
        transport = httpx.ASGITransport(app=app, raise_app_exceptions=False)  # type: ignore[arg-type]
        async with httpx.AsyncClient(transport=transport, base_url="http://here") as client:
            return await client.request(method, path, **given)  # type: ignore[arg-type]

    return asyncio.run(go())


def test_a_decision_is_what_the_router_says(app: Guarded, study: Path) -> None:
    router = make_router(Study.open(study), "knn_weighted")
    vector = [0.5, -1.0, 2.0, 0.0, 1.0, -0.25]
    got = call(app, "POST", "/v1/route", json={"vector": vector, "benchmark": "b1"})
    assert got.status_code == 200
    items = router.questions(vectors=np.array([vector], np.float32), benchmark="b1")
    assert got.json() == {**router.route(items)[0].to_json(),
                          "cost_unit": "USD per million tokens"}  # fmt: skip
    dear = call(app, "POST", "/v1/route", json={"vector": vector, "lambda": 100})
    assert dear.json()["model"] == "m0"
    assert dear.json()["left_out"] == {"m3": "its cost is not known"}
    cheap = call(app, "POST", "/v1/route", json={"text": "why?", "max_cost": 1.0})
    assert list(cheap.json()["chances"]) == ["m0"]
    two = call(app, "POST", "/v1/route", json={"text": "why?", "candidates": ["m3", "m1"]})
    assert set(two.json()["chances"]) == {"m1", "m3"}
    predicted = call(app, "POST", "/v1/predict", json={"text": "why?"}).json()
    assert predicted["costs"] == {"m0": 1.0, "m1": 2.0, "m2": 3.0, "m3": None} or all(
        predicted["costs"][f"m{i}"] == pytest.approx(i + 1) for i in range(3)
    )
    health = call(app, "GET", "/healthz").json()
    assert health["status"] == "ok"
    assert (health["dim"], health["benchmarks"]) == (DIM, ["b0", "b1"])


@pytest.mark.parametrize(
    ("content", "kind", "status", "reason"),
    [
        (b"{" + b" " * 70_000 + b"}", "application/json", 413, "larger than 65536 bytes"),
        (b'{"text":"a"}', "text/plain", 415, "expected Content-Type: application/json"),
        (b'{"text":"a"}', "application/json; charset=latin-1", 415, "(UTF-8)"),
        (b'{"text":"\xff"}', "application/json", 400, "is not UTF-8 (byte 9)"),
        (b'{"text":', "application/json", 400, "is not JSON"),
        (b"[" * 60_000, "application/json", 400, "body"),
        (b"[1]", "application/json", 422, "valid"),
        (b'{"text":""}', "application/json", 422, "at least 1 character"),
        (b'{"text":" "}', "application/json", 422, "pattern"),
        (b'{"text":5}', "application/json", 422, "valid string"),
        (b'{"text":"a","colour":1}', "application/json", 422, "not permitted"),
        (b'{"text":"a","benchmark":"b7"}', "application/json", 422, "'b0' or 'b1'"),
        (b'{"text":"a","benchmark":"\\ud800"}', "application/json", 422, ""),
        (b'{"vector":[1,2]}', "application/json", 422, "at least 6 items"),
        (b'{"vector":[1,2,3,4,5,NaN]}', "application/json", 422, "finite number"),
        (b'{"vector":[1,2,3,4,5,1e39]}', "application/json", 422, "less than or equal to"),
        (b'{"text":"a","lambda":-1}', "application/json", 422, "greater than or equal to 0"),
        (b'{"text":"a","lambda":Infinity}', "application/json", 422, "finite"),
        (b'{"text":"a","max_cost":0.01}', "application/json", 409, "costs more than 0.01"),
        (b'{"text":"a","candidates":["m3"],"lambda":1}', "application/json", 409, "has a cost"),
    ],
)  # fmt: skip
def test_what_is_refused_says_why(
    app: Guarded, content: bytes, kind: str, status: int, reason: str
) -> None:
    got = call(app, "POST", "/v1/route", content=content, headers={"content-type": kind})
    assert got.status_code == status, got.text
    assert got.headers["content-type"] == "application/json"
    assert reason in got.json()["error"]["reason"], got.text


def test_other_paths_and_methods(app: Guarded) -> None:
    assert call(app, "GET", "/v1/route").status_code == 405
    assert call(app, "GET", "/v1/route").headers["allow"] == "POST"
    missing = call(app, "GET", "/etc/passwd")
    assert (missing.status_code, missing.json()["error"]["code"]) == (404, "not_found")


def test_half_a_surrogate_pair_is_a_text(app: Guarded) -> None:
    got = call(app, "POST", "/v1/route", content=b'{"text":"a \\ud83d"}',
               headers={"content-type": "application/json"})  # fmt: skip
    assert got.status_code in (200, 422), got.text


def test_the_rate_is_a_bucket_an_address() -> None:
    clock = [0.0]
    rates = Rates(2.0, 3, lambda: clock[0])
    assert [rates.allow("a") for _ in range(5)] == [True, True, True, False, False]
    assert rates.allow("b")
    clock[0] = 0.5
    assert [rates.allow("a") for _ in range(2)] == [True, False]
    assert all(Rates(0, 1).allow("a") for _ in range(9))


def test_too_many_requests_are_refused(study: Path) -> None:
    router = make_router(Study.open(study), "knn_weighted")
    app = build_app(router, None, Limits(rate=0.001, burst=2))
    got = [call(app, "GET", "/healthz").status_code for _ in range(3)]
    assert got == [200, 200, 429]


def test_the_log_has_no_question(app: Guarded, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, "thetascope.service"):
        call(app, "POST", "/v1/route?key=hidden", json={"text": "my secret plan"},
             headers={"authorization": "Bearer hidden"})  # fmt: skip
    assert "POST /v1/route 200" in caplog.text
    assert "secret" not in caplog.text
    assert "hidden" not in caplog.text


def test_schemathesis_finds_no_fault(app: Guarded) -> None:
    """Every phase of its engine: examples, coverage of the schema, fuzzing of both kinds."""
    schema = schemathesis.openapi.from_asgi("/openapi.json", app)
    schema.config.generation.update(max_examples=40)
    # What is wrong may be too large as well.
    allowed = schema.config.checks.negative_data_rejection
    allowed.expected_statuses = [*allowed.expected_statuses, "413"]
    faults, tested = [], 0
    for event in engine.from_schema(schema).execute():
        if isinstance(event, events.ScenarioFinished):
            tested += len(event.recorder.cases)
            for checks in event.recorder.checks.values():
                faults += [f"{c.name}: {c.failure_info}"[:600] for c in checks if c.failure_info]
        assert not isinstance(event, events.NonFatalError | events.FatalError), event
    assert not faults, "\n".join(faults[:5])
    assert tested > 200


def test_it_serves_and_stops_cleanly(study: Path) -> None:
    for number in (signal.SIGTERM, signal.SIGINT):
        process = subprocess.Popen(
            [sys.executable, "-m", "thetascope", "route", "serve", str(study), "--port", "0",
             "--predictor", "knn_weighted", "--json"],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, env={**os.environ},
        )  # fmt: skip
        assert process.stdout is not None
        lines = b""
        while not lines.rstrip().endswith(b"}"):
            part = process.stdout.readline()
            assert part, process.stderr and process.stderr.read()
            lines += part
        url = json.loads(lines)["url"]
        assert url.startswith("http://127.0.0.1:")
        for _ in range(100):
            try:
                with urllib.request.urlopen(f"{url}/healthz", timeout=5) as answer:
                    assert json.loads(answer.read())["status"] == "ok"
                break
            except OSError:
                time.sleep(0.1)
        process.send_signal(number)
        _, complaint = process.communicate(timeout=30)
        assert process.returncode == 0, complaint
        assert b"Traceback" not in complaint
        assert b"GET /healthz 200" in complaint  # the log: method, path, status, milliseconds


def test_an_address_in_use_is_one_line(study: Path, capsys: pytest.CaptureFixture[str]) -> None:
    import socket

    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        assert main(["route", "serve", str(study), "--port", port]) == 2
    assert "cannot be listened on: Address already in use" in capsys.readouterr().err
