"""Waiting for a server, against real processes and sockets."""

from __future__ import annotations

import json
import os
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

from include.node import ports, processes, serve

MODEL = {"id": "auto", "root": "/weights", "max_model_len": 512}


class Endpoint(BaseHTTPRequestHandler):
    """Answers as vLLM does to /health and /v1/models."""

    def do_GET(self) -> None:
        self.send_response(200)
        self.end_headers()
        if self.path == "/v1/models":
            self.wfile.write(json.dumps({"object": "list", "data": [MODEL]}).encode())

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def port() -> Iterator[int]:
    server = HTTPServer(("127.0.0.1", 0), Endpoint)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield server.server_port
    server.shutdown()


def test_what_is_served_is_read_and_compared(port: int) -> None:
    model = serve.served_model(port)
    assert model == MODEL
    assert serve.mismatch(model, {"max_model_len": 512}) is None
    assert serve.mismatch(model, {"max_model_len": 1024}) == "the server's max_model_len is 512, expected 1024"
    assert serve.mismatch(model, {"root": "/old"}) == "the server's root is '/weights', expected '/old'"


def test_ports_in_use_are_seen(port: int) -> None:
    assert ports.in_use(port)
    assert not ports.in_use(port, "127.0.0.2")


def test_a_server_that_dies_shows_the_end_of_its_log(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log = tmp_path / "server.log"
    pid = processes.start([sys.executable, "-c", "print('KV cache too small'); raise SystemExit(3)"], log, {})
    with pytest.raises(SystemExit):
        serve.wait_until_ready(pid, 1, log, timeout_s=20)
    said = capsys.readouterr().err
    assert "the server ended with 3 before it was ready" in said
    assert "KV cache too small" in said


def test_a_server_that_never_gets_ready_is_given_up(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log = tmp_path / "server.log"
    pid = processes.start(["sleep", "30"], log, {})
    try:
        with pytest.raises(SystemExit):
            serve.wait_until_ready(pid, 1, log, timeout_s=0.2)
        assert "not ready after 0 s (serving.ready_timeout_s)" in capsys.readouterr().err
    finally:
        os.kill(pid, 9)
        os.waitpid(pid, 0)
