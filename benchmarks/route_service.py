"""How fast a routing decision is, and how the service holds (llmrouter, offline encoder).

    python -m benchmarks.route_service [--work DIR] [--seconds 60] [--predictor NAME]

Bars: one decision, text in to model out with the encoder warm, under 30 ms on one core (median
of 200 questions of the set); over 10,000 decisions a second from vectors; 100 clients at once
for 60 seconds without an error, and a clean stop.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import httpx
import numpy as np

from benchmarks.bars import Bars
from benchmarks.compare_sets import SHARED, prepared, thetascope
from thetascope.decisions.routing.router import Router, make_router
from thetascope.encoders import encoder_for, load_vectors
from thetascope.study import Study

CLIENTS = 100
QUICK = ("mirt_text", "jeirt_context")
"""Parts of the blend that are quick by themselves."""


def decision(study: Study, router: Router, bars: Bars) -> None:
    """Milliseconds from a text to a model."""
    import torch

    torch.set_num_threads(1)
    encoder = encoder_for(load_vectors(study, router.encoder, path=study.path))
    texts = study.items["text"].sample(220, seed=0).to_list()
    wall, processor = [], []
    for text in texts:
        start, used = time.perf_counter(), time.process_time()
        items = router.questions(texts=[text], vectors=encoder.encode([text]))
        router.route(items)
        wall.append(1000 * (time.perf_counter() - start))
        processor.append(1000 * (time.process_time() - used))
    bars.at_most("one decision, text to model, median", float(np.median(processor[20:])), 30,
                 "ms of one core")  # fmt: skip
    print(
        f"     by the clock: median {np.median(wall[20:]):.1f} ms, 95 % within"
        f" {np.quantile(wall[20:], 0.95):.1f} ms (more where the machine is shared)"
    )


def throughput(router: Router, bars: Bars) -> None:
    """Decisions a second from vectors, the benchmark told."""
    vectors = router.known.vectors
    assert vectors is not None
    many = np.tile(vectors, (3, 1))[:10_000]
    items = router.questions(vectors=many, benchmark=router.known.benchmarks[0])
    router.choose(items)
    used = time.process_time()
    router.choose(items)
    rate = len(many) / (time.process_time() - used)
    bars.at_least(f"{router.fit.NAME}: decisions from vectors", rate, 10_000,
                  "a second of one core")  # fmt: skip


async def clients(url: str, texts: list[str], seconds: float) -> tuple[int, list[str]]:
    """Answers and faults of clients that each send the next question when one is answered."""
    faults: list[str] = []
    answered, end = 0, time.monotonic() + seconds

    async def one(client: httpx.AsyncClient, turn: int) -> None:
        nonlocal answered
        while time.monotonic() < end:
            turn += CLIENTS
            try:
                body = {"text": texts[turn % len(texts)][:20_000]}
                got = await client.post("/v1/route", json=body)
            except httpx.HTTPError as error:
                faults.append(repr(error))
                continue
            if got.status_code == 200:
                answered += 1
            else:
                faults.append(f"{got.status_code} {got.text[:100]}")

    # One connection each; a client object each would spend its time on certificates.
    limits = httpx.Limits(max_connections=CLIENTS, max_keepalive_connections=CLIENTS)
    async with httpx.AsyncClient(base_url=url, timeout=120, limits=limits) as client:
        await asyncio.gather(*(one(client, k) for k in range(CLIENTS)))
    return answered, faults


def service(study: Path, predictor: str, texts: list[str], seconds: float, bars: Bars) -> None:
    """The service under load, then told to stop."""
    process = subprocess.Popen(
        [sys.executable, "-m", "thetascope", "route", "serve", str(study), "--port", "0",
         "--rate", "0", "--predictor", predictor, "--json"],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip
    assert process.stdout is not None
    said = b""
    while not said.rstrip().endswith(b"}"):
        said += process.stdout.readline()
    url = json.loads(said)["url"]
    for _ in range(200):
        try:
            httpx.get(f"{url}/healthz").raise_for_status()
            break
        except httpx.HTTPError:
            time.sleep(0.1)
    answered, faults = asyncio.run(clients(url, texts, seconds))
    process.send_signal(signal.SIGTERM)
    _, complaint = process.communicate(timeout=60)
    print(f"     {answered:,} questions answered in {seconds:g} s by {CLIENTS} clients")
    bars.at_most("errors under load", len(faults), 0)
    bars.at_most("exit status after SIGTERM", process.returncode, 0)
    if faults or process.returncode:
        print(faults[:3], complaint.decode()[-500:])


def main() -> None:
    """All three."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--work", type=Path)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--predictor", default="blend")
    given = parser.parse_args()
    if not SHARED.is_dir():
        print("skipped: the folder of real results beside the repository is absent")
        return
    if os.environ.get("OMP_NUM_THREADS") != "1":  # one core: before numpy is loaded
        one = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
        command = [sys.executable, "-m", "benchmarks.route_service", *sys.argv[1:]]
        sys.exit(subprocess.run(command, env={**os.environ, **one}).returncode)
    bars = Bars()
    with tempfile.TemporaryDirectory() as scratch:
        folder = prepared("llmrouter", given.work or Path(scratch))
        thetascope("fit", str(folder), "--predictor", given.predictor)
        study = Study.open(folder)
        router = make_router(study, given.predictor)
        decision(study, router, bars)
        throughput(router, bars)
        for name in QUICK:
            thetascope("fit", str(folder), "--predictor", name)
            throughput(make_router(Study.open(folder), name), bars)
        texts = study.items["text"].sample(1000, seed=1).to_list()
        service(folder, given.predictor, texts, given.seconds, bars)
    bars.finish()


if __name__ == "__main__":
    main()
