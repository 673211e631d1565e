"""One process that serves predictions and reason codes by HTTP, under the load of 8 clients: latencies of requests.

    python -m benchmarks.serving [--seconds 10] [--clients 8] [--server fastapi]

The service is Python's own http.server with a thread for each connection, or FastAPI under uvicorn, as in
examples/serve_with_fastapi.py. Clients are one process, send a record by name in JSON, wait for the answer and send the
next. "http" answers without computing anything: what the rest costs.
"""

from __future__ import annotations

import argparse
import http.client
import json
import multiprocessing
import socket
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.metadata import version
from importlib.util import find_spec

import numpy as np

from benchmarks.cluster import RESULTS
from benchmarks.machine import conditions, machine_name


def serve(pipe, server: str) -> None:
    """Serve a boosted ensemble of Adult: 100 trees of depth 6."""
    import xgboost

    import glasswood

    X, y = glasswood.datasets.adult()
    frame = X.astype({name: "category" for name in X.columns if X[name].dtype.kind not in "biuf"})
    model = xgboost.XGBClassifier(n_estimators=100, max_depth=6, enable_categorical=True).fit(frame, y == y.max())
    forest = glasswood.load(model)
    encode, predict = forest.encoder(), forest.predictor("probability", names=True)
    reasons = glasswood.Explainer(forest).prepare().row(top=3, names=True)
    answers = {
        "/http": lambda _: {},
        "/predict": lambda record: {"probability": np.asarray(predict(encode(record))).tolist()},
        "/reasons": lambda record: {"reasons": [list(map(str, reason)) for reason in reasons(encode(record))]},
    }
    records = [{name: plain(value) for name, value in row.items()} for row in X[:200].to_dict("records")]
    SERVERS[server](answers, lambda port: pipe.send((port, records)))


def serve_http(answers, begun) -> None:
    """Answer by Python's own server."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        wbufsize = -1  # header and body in one packet
        disable_nagle_algorithm = True

        def do_POST(self) -> None:
            record = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            body = json.dumps(answers[self.path](record)).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    begun(server.server_address[1])
    server.serve_forever()


def serve_fastapi(answers, begun) -> None:
    """Answer by FastAPI, which checks a record's types, in one process of uvicorn."""
    import fastapi
    import uvicorn

    def endpoint(answer):
        def respond(record: dict[str, float | str | None]) -> dict[str, object]:
            return answer(record)

        return respond

    app = fastapi.FastAPI()
    for path, answer in answers.items():
        app.post(path)(endpoint(answer))
    # asyncio answers without delay only where the socket says that it is of TCP.
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP) as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        begun(listener.getsockname()[1])
        uvicorn.Server(uvicorn.Config(app, log_level="warning", access_log=False)).run(sockets=[listener])


SERVERS = {"http": serve_http, "fastapi": serve_fastapi}
PACKAGES = {"http": (), "fastapi": ("fastapi", "uvicorn")}


def plain(value: object) -> object:
    """Make a value one that JSON has; a missing one is None."""
    value = value.item() if isinstance(value, np.generic) else value
    return None if value != value else value


def load(port: int, path: str, records: list, seconds: float, n_clients: int) -> list[float]:
    """Seconds of each request of clients that send one after the other."""
    bodies, taken = [json.dumps(record) for record in records], []
    end = time.perf_counter() + seconds

    def client(number: int) -> None:
        connection, at = http.client.HTTPConnection("127.0.0.1", port), number
        while (start := time.perf_counter()) < end:
            connection.request("POST", path, bodies[at % len(bodies)], {"Content-Type": "application/json"})
            answer = connection.getresponse()
            assert answer.status == 200, answer.read()
            answer.read()
            taken.append(time.perf_counter() - start)
            at += 1

    threads = [threading.Thread(target=client, args=[number]) for number in range(n_clients)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return taken


def main() -> None:
    """Print a table, and write it as JSON."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=10)
    parser.add_argument("--clients", type=int, default=8)
    parser.add_argument("--server", choices=SERVERS, default="http")
    given = parser.parse_args()
    if missing := [name for name in PACKAGES[given.server] if find_spec(name) is None]:
        parser.error(f"--server {given.server} needs {' and '.join(missing)}, which are not installed")
    context = multiprocessing.get_context("spawn")
    here, there = context.Pipe()
    server = context.Process(target=serve, args=[there, given.server], daemon=True)
    server.start()
    there.close()  # where the server ends instead of answering, the next line says so
    port, records = here.recv()
    table = {}
    for path in ("/http", "/predict", "/reasons"):
        load(port, path, records, 1, given.clients)
        taken = load(port, path, records, given.seconds, given.clients)
        p50, p99 = 1000 * np.quantile(taken, [0.5, 0.99])
        table[path[1:]] = {"p50_ms": p50, "p99_ms": p99, "requests_per_second": len(taken) / given.seconds}
    server.terminate()
    print(f"| answer | p50 | p99 | requests a second, {given.clients} clients |\n|---|---|---|---|")
    for name, row in table.items():
        print(f"| {name} | {row['p50_ms']:.2f} ms | {row['p99_ms']:.2f} ms | {row['requests_per_second']:,.0f} |")
    about = conditions()
    about["versions"] |= {name: version(name) for name in PACKAGES[given.server]}
    about |= {"server": given.server, "clients": given.clients, "seconds": given.seconds}
    name = {"http": "serving", "fastapi": "serving-fastapi"}[given.server]
    (RESULTS / f"{name}-{machine_name()}.json").write_text(json.dumps(about | table, indent=1) + "\n")


if __name__ == "__main__":
    main()
