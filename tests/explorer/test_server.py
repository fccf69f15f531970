"""The explorer's server: what it serves, whom it refuses, and that nothing is ever written."""

from __future__ import annotations

import gzip
import json
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import polars as pl
import pytest

pytest.importorskip("fastapi", reason="the extra serve is not installed")
pytest.importorskip("uvicorn", reason="the extra serve is not installed")

import httpx
from tests.explorer.explorer_cases import folder_hash, tiny

import thetascope as ts
from thetascope.cli import main
from thetascope.decisions.onboarding import onboard
from thetascope.decisions.saved import stored_bank
from thetascope.explorer import Contents
from thetascope.explorer.guard import SECURITY
from thetascope.explorer.page import page_files
from thetascope.explorer.server import Explorer, listen, make_app
from thetascope.study import Study


@pytest.fixture(scope="module")
def server(small_study: Path) -> Iterator[Explorer]:
    before = folder_hash(small_study)
    with ts.explore(small_study) as running:
        yield running
    assert folder_hash(small_study) == before, "the study was written into"


@pytest.fixture
def client(server: Explorer) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=server.url, timeout=60) as made:
        yield made


def address(server: Explorer) -> tuple[str, int]:
    url = httpx.URL(server.url)
    assert url.port is not None
    return url.host, url.port


def raw(server: Explorer, request: bytes) -> tuple[int, dict[str, str], bytes]:
    """One request as bytes, that no client tidies up."""
    with socket.create_connection(address(server), timeout=30) as link:
        link.sendall(request)
        data = b""
        while part := link.recv(1 << 16):
            data += part
    head, _, body = data.partition(b"\r\n\r\n")
    status, *lines = head.decode("latin-1").split("\r\n")
    headers = {k.lower(): v for k, _, v in (line.partition(": ") for line in lines)}
    return int(status.split(" ")[1]), headers, body


def get(server: Explorer, path: str, method: str = "GET", host: str = "localhost") -> Any:
    head = f"{method} {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n"
    return raw(server, head.encode("latin-1"))


def refused(answer: httpx.Response, status: int) -> dict[str, Any]:
    """The error of a refusal, which has the same form and headers as every other."""
    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"] == "application/json"
    for name, value in SECURITY:
        assert answer.headers[name] == value
    body = answer.json()
    assert set(body) == {"error"}
    assert set(body["error"]) == {"code", "reason", "field"}
    return body["error"]


def test_page_and_files_are_those_that_are_published(
    client: httpx.Client, small_study: Path
) -> None:
    contents = Contents(small_study)
    for name, data in page_files().items():
        answer = client.get("/" if name == "index.html" else f"/{name}")
        assert answer.status_code == 200
        assert answer.content == data, name
    for path in contents.paths():
        if path == "site.json":
            continue
        answer = client.get(f"/data/{path}")
        assert answer.status_code == 200
        assert answer.content == contents.read(path), path
    site = client.get("/data/site.json").json()
    assert site["versus"] == "all"
    assert site["answers"] == ["onboard"]
    missing = {m["what"]: m for m in site["missing"]}
    assert missing["route"]["command"] == f"thetascope fit {small_study} --predictor blend"
    assert client.get("/data/versus/002-009.parquet").status_code == 200


def test_headers_are_on_every_answer(client: httpx.Client) -> None:
    for path in ("/", "/data/site.json", "/data/items.parquet", "/nothing", "/api/route"):
        answer = client.get(path)
        for name, value in SECURITY:
            assert answer.headers[name] == value, path
        assert "server" not in answer.headers
    assert client.get("/").headers["content-type"] == "text/html; charset=utf-8"
    kinds = {"assets/index.js": "text/javascript; charset=utf-8", "icon.svg": "image/svg+xml",
             "data/site.json": "application/json",
             "data/items.parquet": "application/vnd.apache.parquet"}  # fmt: skip
    for path, kind in kinds.items():
        assert client.get(f"/{path}").headers["content-type"] == kind
    policy = client.get("/").headers["content-security-policy"]
    assert "script-src 'self';" in policy
    assert "unsafe-eval" not in policy


def test_what_is_unchanged_is_not_sent_again_and_json_is_packed(client: httpx.Client) -> None:
    for path in ("/data/site.json", "/data/items.parquet", "/"):
        for packing in ("gzip", "identity"):
            first = client.get(path, headers={"accept-encoding": packing})
            tag = first.headers["etag"]
            again = client.get(path, headers={"accept-encoding": packing, "if-none-match": tag})
            assert again.status_code == 304
            assert again.content == b""
            assert again.headers["etag"] == tag
            other = client.get(path, headers={"if-none-match": '"other"'})
            assert other.status_code == 200
            assert other.content == first.content
    plain = client.get("/data/coverage.json", headers={"accept-encoding": "identity"})
    assert "content-encoding" not in plain.headers
    with client.stream("GET", "/data/coverage.json", headers={"accept-encoding": "gzip"}) as sent:
        packed = b"".join(sent.iter_raw())
        assert sent.headers["content-encoding"] == "gzip"
    assert gzip.decompress(packed) == plain.content
    assert len(packed) < 0.5 * len(plain.content)
    refused_packing = client.get("/data/coverage.json", headers={"accept-encoding": "gzip;q=0"})
    assert "content-encoding" not in refused_packing.headers


def test_head_is_get_without_the_body(client: httpx.Client) -> None:
    for path in ("/", "/data/items.parquet", "/data/nothing"):
        got, head = client.get(path), client.head(path)
        assert head.status_code == got.status_code
        assert head.content == b""
        for name in ("content-length", "content-type"):
            assert head.headers[name] == got.headers[name], (path, name)


@pytest.mark.parametrize(
    "path",
    [
        "/../study.json", "/data/../../study.json", "/data/%2e%2e/study.json",
        "/%2e%2e/%2e%2e/etc/passwd", "/data/..%2f..%2fetc%2fpasswd", "/data/..%5c..%5cx",
        "/data/\\..\\..\\x", "/data/site.json%00", "/data/%00", "/data//site.json",
        "//data/site.json", "/data/./site.json", "/data/site.json/", "/Data/site.json",
        "/data/site.json;x", "/data/scores/999.parquet", "/data/scores/-01.parquet",
        "/data/scores/000.parquet'%20OR%201=1--", "/data/versus/001-001.parquet",
        "/data/versus/999999999-9999999999999.parquet", "/data/versus/%D9%A0-%D9%A1.parquet",
        "/assets/../index.html", "/assets/", "/assets", "/page/index.html", "/study.json",
        "/etc/passwd", "/data/%ff%fe", "/data/" + "a" * 8000, "/data/" + "../" * 2000,
        "/__init__.py", "/.lock",
    ],
)  # fmt: skip
def test_no_path_leads_out_of_what_is_known(server: Explorer, path: str) -> None:
    status, headers, body = get(server, path)
    assert status == 404, body[:200]
    assert headers["content-type"] == "application/json"
    assert json.loads(body)["error"]["code"] == "not_found"


@pytest.mark.parametrize(
    "request_line",
    ["GET http://evil.example/data/site.json HTTP/1.1", "GET data/site.json HTTP/1.1",
     "GET * HTTP/1.1", "BREW / HTTP/1.1"],
)  # fmt: skip
def test_strange_request_lines_are_refused(server: Explorer, request_line: str) -> None:
    head = f"{request_line}\r\nHost: localhost\r\nConnection: close\r\n\r\n"
    status, _, _ = raw(server, head.encode())
    assert 400 <= status < 500


def test_queries_change_nothing(client: httpx.Client) -> None:
    plain = client.get("/data/site.json").content
    for query in ("?id=1' OR '1'='1", "?;DROP TABLE items", "?token=x", "?" + "a=1&" * 500,
                  "?%00", "?name=../../etc/passwd"):  # fmt: skip
        answer = client.get(f"/data/site.json{query}")
        assert answer.status_code == 200
        assert answer.content == plain


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE"])
def test_files_are_only_read(client: httpx.Client, method: str) -> None:
    for path in ("/", "/data/site.json", "/nothing"):
        answer = client.request(method, path)
        assert refused(answer, 405)["code"] == "wrong_method"
        assert answer.headers["allow"] == "GET, HEAD"
    for path in ("/api/route", "/api/onboard"):
        if method != "POST":
            assert client.request(method, path).status_code == 405
    assert refused(client.post("/api/else"), 404)["code"] == "not_found"


def test_a_page_of_another_name_is_refused(server: Explorer) -> None:
    port = address(server)[1]
    for host in ("localhost", f"localhost:{port}", "127.0.0.1", f"127.0.0.1:{port}", "[::1]",
                 f"[::1]:{port}", "127.0.0.2"):  # fmt: skip
        assert get(server, "/data/site.json", host=host)[0] == 200, host
    for host in ("evil.example", "localhost.evil.example", "127.0.0.1.evil.example",
                 "evil@localhost", "localhost@evil", "", "[", "10.0.0.1", "0.0.0.0"):  # fmt: skip
        status, headers, body = get(server, "/data/site.json", host=host)
        assert status == 421, host
        assert json.loads(body)["error"]["code"] == "wrong_host"
        assert "content-security-policy" in headers


def test_what_computes_takes_no_orders_from_other_pages(client: httpx.Client) -> None:
    own = str(client.base_url).rstrip("/")
    body, kind = b"item_id,model,score\n", {"content-type": "application/octet-stream"}
    for origin in ("https://evil.example", "null", "http://localhost:1", own + ".evil",
                   "file://", "http://["):  # fmt: skip
        answer = client.post("/api/onboard", content=body, headers={**kind, "origin": origin})
        assert refused(answer, 403)["code"] == "other_origin", origin
    cross = {**kind, "sec-fetch-site": "cross-site"}
    assert refused(client.post("/api/onboard", content=body, headers=cross), 403)
    for other in ("text/plain", "multipart/form-data", "application/x-www-form-urlencoded", ""):
        answer = client.post("/api/onboard", content=body, headers={"content-type": other})
        assert refused(answer, 415)["code"] == "wrong_type"
    same = {**kind, "origin": own}
    assert client.post("/api/onboard", content=body, headers=same).status_code == 422


def new_model(study: Path, n: int = 150) -> pl.DataFrame:
    table = Study.open(study).responses
    model = table["model"][-1]
    mine = table.filter(model=model).sample(n, seed=0).select("item_id", "score")
    return mine.with_columns(model=pl.lit("new <b>model</b>"))


def test_a_dropped_file_is_placed_as_onboard_does(client: httpx.Client, small_study: Path) -> None:
    given = new_model(small_study)
    strange = pl.DataFrame({"item_id": ["no:1"], "score": [1.0], "model": [given["model"][0]]})
    body = pl.concat([given, strange], how="diagonal").write_csv().encode()
    answer = client.post("/api/onboard", params={"name": "../../run 1.csv"}, content=body,
                         headers={"content-type": "application/octet-stream"})  # fmt: skip
    assert answer.status_code == 200, answer.text
    [found] = answer.json()
    expected = onboard(stored_bank(Study.open(small_study)), given, level=0.95)
    assert (found["model"], found["n_used"], found["unknown"]) == ("new <b>model</b>", 150, 1)
    for mine, theirs in zip(found["scores"], expected.scores, strict=True):
        assert mine["benchmark"] == theirs.benchmark
        assert mine["estimate"] == pytest.approx(theirs.value, abs=1e-4)
        assert (mine["low"], mine["high"]) == pytest.approx((theirs.low, theirs.high), abs=1e-4)
        assert mine["n"] == theirs.n_answered
    original = Study.open(small_study).responses["model"][-1]
    assert found["nearest"][0][0] == original, "it has that model's answers"
    assert found["nearest"] == sorted(found["nearest"], key=lambda n: -n[1])


def test_files_that_cannot_be_used_are_told_why(client: httpx.Client, small_study: Path) -> None:
    kind = {"content-type": "application/octet-stream"}
    own = new_model(small_study, 5)
    cases: dict[str, tuple[str, bytes]] = {
        "empty": ("x.csv", b""),
        "noise": ("x.csv", bytes(range(256)) * 40),
        "noise as parquet": ("x.parquet", b"PAR1" + b"\xff" * 999),
        "noise as zip": ("x.eval", b"PK\x03\x04" + b"\0" * 999),
        "deep": ("x.json", b"[" * 100_000),
        "pickle": ("x.pkl", b"\x80\x04\x95"),
        "other items": ("x.csv", b"item_id,model,score\nno:1,m,1\n"),
        "wrong scores": ("x.csv", own.with_columns(score=pl.lit(7.5)).write_csv().encode()),
        "twice": ("x.csv", pl.concat([own, own]).write_csv().encode()),
        "name": ("../../../etc/passwd", b"root"),
        "nul": ("a\x00b.csv", b"item_id"),
        "long": ("n" * 2000 + ".csv", b"item_id"),
        "dots": ("..", b"item_id"),
    }
    for what, (name, body) in cases.items():
        answer = client.post("/api/onboard", params={"name": name}, content=body, headers=kind)
        error = refused(answer, 422)
        assert error["reason"], what
        assert "/tmp" not in error["reason"], what
        assert "\n" not in error["reason"], what


def test_bodies_have_a_greatest_size(server: Explorer, client: httpx.Client) -> None:
    head = (
        "POST /api/onboard?name=x.csv HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n"
        "Content-Type: application/octet-stream\r\nContent-Length: 99999999999\r\n\r\n"
    )
    status, _, body = raw(server, head.encode())
    assert status == 413
    assert json.loads(body)["error"]["code"] == "too_large"
    large = client.post("/api/route", content=b"x" * 200_000,
                        headers={"content-type": "application/json"})  # fmt: skip
    assert refused(large, 413)["code"] == "too_large"


def test_without_a_blend_the_command_is_told(client: httpx.Client, small_study: Path) -> None:
    answer = client.post("/api/route", json={"text": "one and one?"})
    error = refused(answer, 409)
    assert f"thetascope fit {small_study} --predictor blend" in error["reason"]


def test_many_requests_at_once(server: Explorer, client: httpx.Client) -> None:
    site = client.get("/data/site.json").json()
    m = len(site["models"])
    wanted = [
        ("/", 200), ("/data/site.json", 200), ("/data/nothing", 404), ("/data/../x", 404),
        *((f"/data/scores/{k:03d}.parquet", 200) for k in range(m)),
        *((f"/data/versus/{a:03d}-{a + 1:03d}.parquet", 200) for a in range(m - 1)),
    ]  # fmt: skip
    asked = [wanted[k % len(wanted)] for k in range(200)]

    def ask(what: tuple[str, int]) -> tuple[int, int]:
        status, _, body = get(server, what[0])
        return status, len(body)

    start = time.perf_counter()
    with ThreadPoolExecutor(200) as pool:
        found = list(pool.map(ask, asked))
    assert [status for status, _ in found] == [status for _, status in asked]
    assert time.perf_counter() - start < 30
    sizes: dict[str, set[int]] = {}
    for (path, _), (_, size) in zip(asked, found, strict=True):
        sizes.setdefault(path, set()).add(size)
    assert all(len(s) == 1 for s in sizes.values())


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Explorer]:
    """Seen from elsewhere: bound to all addresses, so a token is demanded."""
    study = tiny(tmp_path_factory.mktemp("guarded") / "study")
    listening, door = listen("0.0.0.0", 0)
    with Explorer(make_app(study, door), listening) as running:
        yield running


def test_elsewhere_a_token_is_demanded(guarded: Explorer) -> None:
    url = httpx.URL(guarded.url)
    token = url.params["token"]
    assert len(token) >= 24
    base = f"http://127.0.0.1:{url.port}"
    with httpx.Client(base_url=base) as stranger:
        for path in ("/", "/data/site.json", "/assets/index.js", "/nothing", "/api/route"):
            for given in ("", "?token=", "?token=wrong", f"?token={token}x", f"?token={token[:-1]}",
                          "?token=%FF%00", f"?Token={token}"):  # fmt: skip
                assert refused(stranger.get(path + given), 401)["code"] == "no_token"
        assert refused(stranger.post("/api/onboard", content=b"x"), 401)
        wrong = {"authorization": "Bearer wrong", "cookie": f"thetascope_{url.port}=wrong; x"}
        assert refused(stranger.get("/", headers=wrong), 401)
        assert refused(stranger.get("/", headers={"authorization": token}), 401)
        known = {"authorization": f"Bearer {token}"}
        site = stranger.get("/data/site.json", headers=known)
        assert site.status_code == 200
        commands = [m["command"] for m in site.json()["missing"]]
        assert "thetascope leaderboard study" in commands, "not where the study lies"
        assert stranger.get("/data/site.json").status_code == 401, "a header makes no cookie"


def test_the_address_with_the_token_becomes_a_cookie(guarded: Explorer) -> None:
    url = httpx.URL(guarded.url)
    token = url.params["token"]
    with httpx.Client(base_url=f"http://127.0.0.1:{url.port}") as visitor:
        first = visitor.get("/", params={"token": token})
        assert first.status_code == 303
        assert first.headers["location"] == "/"
        cookie = first.headers["set-cookie"]
        assert "HttpOnly" in cookie
        assert "SameSite=Strict" in cookie
        assert visitor.get("/").status_code == 200
        assert visitor.get("/data/site.json").status_code == 200
    for away in ("//evil.example/", "/\\evil.example/", "https://evil.example/", "/%2f%2fevil/"):
        status, headers, _ = get(guarded, f"{away}?token={token}")
        assert status == 404
        assert "location" not in headers


def test_the_log_has_no_token(guarded: Explorer, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("DEBUG")
    token = httpx.URL(guarded.url).params["token"]
    port = httpx.URL(guarded.url).port
    with httpx.Client() as visitor:
        caplog.set_level("WARNING", "httpx")
        caplog.set_level("WARNING", "httpcore")
        visitor.get(f"http://127.0.0.1:{port}/data/site.json?token={token}")
    own = [r.getMessage() for r in caplog.records if r.name.startswith(("thetascope", "uvicorn"))]
    assert not any(token in line for line in own)


def test_from_python_it_starts_shows_and_stops(small_study: Path) -> None:
    running = ts.explore(ts.open(small_study), title="T")
    try:
        assert httpx.get(running.url + "data/site.json").json()["name"] == "T"
        shown = running._repr_html_()
        assert shown.startswith(f'<iframe src="{running.url}"')
        assert "script" not in shown
    finally:
        running.stop()
    running.stop()
    with pytest.raises(httpx.ConnectError):
        httpx.get(running.url)
    with pytest.raises(ts.InputError, match="no study here"):
        ts.explore(small_study / "nowhere")


def test_a_port_in_use_is_one_line(server: Explorer, small_study: Path) -> None:
    host, port = address(server)
    with pytest.raises(ts.InputError, match="cannot be listened on"):
        ts.explore(small_study, host=host, port=port)


def test_the_command_serves_until_it_is_told_to_stop(small_study: Path) -> None:
    command = [sys.executable, "-m", "thetascope", "explore", str(small_study), "--port", "0",
               "--json"]  # fmt: skip
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as running:
        assert running.stdout is not None
        text = ""
        while not text.rstrip().endswith("}"):
            line = running.stdout.readline().decode()
            assert line, running.stderr.read() if running.stderr else ""
            text += line
        found = json.loads(text)
        assert found["items"] == 600
        assert found["answers"] == ["onboard"]
        assert httpx.get(found["url"]).status_code == 200
        running.terminate()
        assert running.wait(20) == 0


@pytest.mark.parametrize(("terminal", "options", "opened"), [
    (True, [], True), (True, ["--no-browser"], False), (True, ["--json"], False),
    (False, [], False),
])  # fmt: skip
def test_a_browser_is_opened_for_a_person_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str],
    terminal: bool, options: list[str], opened: bool,
) -> None:  # fmt: skip
    shown: list[str] = []
    monkeypatch.setattr("webbrowser.open", shown.append)
    monkeypatch.setattr("sys.stdout.isatty", lambda: terminal, raising=False)
    monkeypatch.setattr(
        "thetascope.explorer.server.run_until_stopped", lambda _, listening: listening.close()
    )
    folder = tiny(tmp_path / "study")
    assert main(["explore", str(folder), "--port", "0", *options]) == 0
    assert bool(shown) == opened
    said = capsys.readouterr().out
    assert "http://127.0.0.1:" in said
    if "--json" not in options:
        assert "it cannot onboard: The study keeps no item bank yet." in said
        assert "token" not in said


def test_elsewhere_the_command_prints_the_token(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(
        "thetascope.explorer.server.run_until_stopped", lambda _, listening: listening.close()
    )
    folder = tiny(tmp_path / "study")
    assert main(["explore", str(folder), "--port", "0", "--host", "0.0.0.0"]) == 0
    said = capsys.readouterr().out
    assert "?token=" in said
    assert "whoever has this address" in said
    assert main(["explore", str(folder), "--host", "not a host"]) == 2
