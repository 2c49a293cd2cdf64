# /// script
# requires-python = ">=3.11"
# dependencies = ["moto[server]==5.2.5"]
# ///
"""A server that speaks S3, in an environment of its own: moto, with faults before it.

Prints one line of JSON when it is up: its url, and a key and secret that it asks for. ``POST /-/faults`` sets
which objects stall after their first piece; ``GET /-/asked`` returns what was read of which object.
"""

from __future__ import annotations

import json
import sys
import threading
from typing import Any

import boto3
from moto import settings
from moto.server import DomainDispatcherApplication, create_backend_app
from werkzeug.serving import make_server

EVERYTHING = {"Version": "2012-10-17", "Statement": {"Effect": "Allow", "Action": "*", "Resource": "*"}}


class Faults:
    """In front of a WSGI application."""

    def __init__(self, inner: Any) -> None:
        self.inner = inner
        self.stalled: set[str] = set()
        self.asked: list[tuple[str, str]] = []

    def __call__(self, environment: dict[str, Any], answer: Any) -> Any:
        path, method = environment["PATH_INFO"], environment["REQUEST_METHOD"]
        if path == "/-/faults":
            length = int(environment["CONTENT_LENGTH"])
            self.stalled = set(json.loads(environment["wsgi.input"].read(length)))
            self.asked.clear()
            return self._told(answer, None)
        if path == "/-/asked":
            return self._told(answer, self.asked)
        name = path.rpartition("/")[2]
        if method == "GET" and name and "list-type" not in environment["QUERY_STRING"]:
            asked = environment.get("HTTP_RANGE", "")
            self.asked.append((name, asked))
            if name in self.stalled and not asked.startswith("bytes=0-"):
                threading.Event().wait(60)
        return self.inner(environment, answer)

    def _told(self, answer: Any, what: object) -> list[bytes]:
        answer("200 OK", [("Content-Type", "application/json")])
        return [json.dumps(what).encode()]


SET_UP = 4
"""Requests that come before there is a user; the others have to be signed."""


def main(address: str) -> None:
    settings.INITIAL_NO_AUTH_ACTION_COUNT = SET_UP
    app = Faults(DomainDispatcherApplication(create_backend_app))
    server = make_server(address, 0, app, threaded=True)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    url = f"http://{address}:{server.port}"
    anybody = {"endpoint_url": url, "region_name": "us-east-1", "aws_access_key_id": "a"}
    iam = boto3.client("iam", aws_secret_access_key="b", **anybody)
    iam.create_user(UserName="reader")
    iam.put_user_policy(UserName="reader", PolicyName="all", PolicyDocument=json.dumps(EVERYTHING))
    key = iam.create_access_key(UserName="reader")["AccessKey"]
    boto3.client("s3", aws_secret_access_key="b", **anybody).create_bucket(Bucket="models")
    print(json.dumps({"url": url, "key": key["AccessKeyId"], "secret": key["SecretAccessKey"]}), flush=True)
    sys.stdin.read()


if __name__ == "__main__":
    main(*sys.argv[1:])
