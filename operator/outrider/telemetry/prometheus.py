"""Measurements from Prometheus: one query per tick for all models, a dozen for the largest fleets."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

import requests
import requests.auth
from prometheus_api_client import PrometheusConnect
from prometheus_api_client.exceptions import PrometheusApiClientException
from urllib3.exceptions import HTTPError, MaxRetryError
from urllib3.util.retry import Retry

from outrider.telemetry.answer import read_answer, read_counts, too_many_series
from outrider.telemetry.complaints import Complaints, Skipped
from outrider.telemetry.promql import around, partition, query, selector
from outrider.telemetry.series import MOST_SERIES, PodKey, PodMetrics, Unreadable
from outrider.telemetry.source import (
    AnswerMalformed,
    AnswerTooLarge,
    MetricsError,
    SourceRefused,
    SourceUnreachable,
)

_CHUNK_BYTES = 64 * 1024
_LOGIN_STATUS = ("HTTP Status Code 401", "HTTP Status Code 403")

_PARTS = (1, 3, 8)
"""Queries per tick: as few as fit the limit of an answer, and a dozen in the tick that finds it out."""
_ANSWERS = 4
"""A tick waits for all answers together no longer than for so many: engines hold their tables on a lease."""
_ENCODINGS = ("", "identity", "gzip")
"""Of answers. One layer is unpacked piece by piece, each within `_CHUNK_BYTES`; stacks are refused."""


@dataclass(frozen=True, slots=True)
class PrometheusSettings:
    """How to reach Prometheus. With both a token and a user name the token wins.

    Raises:
        ValueError: no HTTP URL, or one with credentials in it: those would show up in logs.
    """

    url: str
    timeout_seconds: float = 5.0  # for the whole answer
    max_response_bytes: int = 32 * 1024 * 1024  # after decompression
    bearer_token_file: Path | None = None  # read at every call, so a rotated token works
    username: str | None = None
    password_file: Path | None = None
    ca_file: Path | None = None  # None: the system's

    def __post_init__(self) -> None:
        url = urlsplit(self.url)
        if url.scheme not in ("http", "https") or not url.hostname:
            raise ValueError("the Prometheus URL must start with http:// or https:// and name a host")
        if "@" in url.netloc:
            raise ValueError(
                "the Prometheus URL must not carry credentials; give a user name and a password file"
            )


class PrometheusSource:
    """A `MetricsSource` that reads raw samples, so that windows can be cut where the table changed.

    Not for concurrent use: one `fetch` at a time.
    """

    def __init__(self, settings: PrometheusSettings) -> None:
        self._settings = settings
        self._level = 0
        self._shut_out: Mapping[PodKey, int] = {}  # pods with too many series, and how many
        self._complaints = Complaints()
        self._session = requests.Session()
        self._session.headers["Accept-Encoding"] = "gzip"
        self._session.trust_env = False  # a .netrc or proxy variable must not change who is asked, or as whom
        self._session.verify = str(settings.ca_file) if settings.ca_file else True
        self._session.hooks["response"].append(_BodyLimit(settings))
        self._client = PrometheusConnect(
            url=settings.url.rstrip("/"),
            session=self._session,
            auth=_Login(settings),
            retry=Retry(total=0),  # the next tick is the retry
            timeout=settings.timeout_seconds,
        )

    async def fetch(self, lookback_seconds: float) -> Mapping[PodKey, PodMetrics]:
        """See `MetricsSource.fetch`."""
        return await asyncio.to_thread(self._fetch, lookback_seconds)

    def close(self) -> None:
        """Close the connections."""
        self._session.close()

    def _fetch(self, lookback_seconds: float) -> Mapping[PodKey, PodMetrics]:
        deadline = time.monotonic() + _ANSWERS * self._settings.timeout_seconds
        if self._shut_out:
            self._shut_out = _too_large(self._count())
        while True:
            found, skipped, too_large = self._read_parts(lookback_seconds, deadline)
            if too_large is None:
                break
            counted = self._count()
            before, self._shut_out = self._shut_out, _too_large(counted)
            if self._shut_out.keys() - before.keys():
                continue
            if self._level == len(_PARTS) - 1:
                if not found:
                    raise too_large
                # What is in the way cannot be named; the pods of the other parts go on.
                missing = counted.keys() - found.keys()
                found |= {pod: Unreadable(str(too_large)) for pod in missing}
                break
            self._level += 1
        found |= {pod: too_many_series(count) for pod, count in self._shut_out.items()}
        useless = {pod: metrics.detail for pod, metrics in found.items() if isinstance(metrics, Unreadable)}
        self._complaints.tell({**skipped, **useless})
        return found

    def _read_parts(
        self, lookback_seconds: float, deadline: float
    ) -> tuple[dict[PodKey, PodMetrics], dict[PodKey, Skipped], AnswerTooLarge | None]:
        """All parts that fit; where smaller ones are left to try, none after one that does not."""
        found: dict[PodKey, PodMetrics] = {}
        skipped: dict[PodKey, Skipped] = {}
        too_large = None
        for part in partition(_PARTS[self._level]):
            for others in around(self._shut_out):
                self._require_time(deadline)
                try:
                    answer = read_answer(self._ask(query(lookback_seconds, part + others)))
                except AnswerTooLarge as error:
                    too_large = error
                    continue
                found |= answer.pods
                skipped |= answer.skipped
            if too_large is not None and self._level < len(_PARTS) - 1:
                break
        return found, skipped, too_large

    def _count(self) -> Mapping[PodKey, int]:
        """Series of every engine pod."""
        return read_counts(self._ask(f"count by (namespace, pod) ({selector()})"))

    def _require_time(self, deadline: float) -> None:
        if time.monotonic() > deadline:
            raise SourceUnreachable(
                f"not all of {_PARTS[self._level]} answers came in time",
                action="Look at Prometheus' load, or raise the tuning interval and the timeout.",
            )

    def _ask(self, promql: str) -> object:
        """`data.result` of the answer."""
        try:
            return self._client.custom_query(promql)
        except MetricsError:
            raise
        except PrometheusApiClientException as error:
            raise _refused(str(error)) from error
        except (KeyError, TypeError, ValueError, RecursionError) as error:  # the client reads JSON unchecked
            raise AnswerMalformed(
                f"not an answer of Prometheus: {_short(error)}",
                action="Check that the URL is the one of Prometheus' HTTP API, without /api/v1.",
            ) from error
        except (requests.RequestException, HTTPError, OSError) as error:
            raise SourceUnreachable(
                _short(_cause(error)),
                action=f"Check that {self._settings.url} can be reached from the operator's pod.",
            ) from error


def _too_large(counted: Mapping[PodKey, int]) -> Mapping[PodKey, int]:
    return {pod: count for pod, count in counted.items() if count > MOST_SERIES}


class _Login(requests.auth.AuthBase):
    def __init__(self, settings: PrometheusSettings) -> None:
        self._settings = settings

    def __call__(self, request: requests.PreparedRequest) -> requests.PreparedRequest:
        """Add credentials, read anew."""
        settings = self._settings
        if settings.bearer_token_file:
            request.headers["Authorization"] = f"Bearer {_secret(settings.bearer_token_file)}"
        elif settings.username:
            password = _secret(settings.password_file) if settings.password_file else ""
            return requests.auth.HTTPBasicAuth(settings.username, password)(request)
        return request


class _BodyLimit:
    """Reads the body within the time and size allowed; `requests` itself limits neither."""

    def __init__(self, settings: PrometheusSettings) -> None:
        self._settings = settings

    def __call__(self, response: requests.Response, **_: object) -> None:
        encoding = response.headers.get("Content-Encoding", "").strip().lower()
        if encoding not in _ENCODINGS:
            response.close()
            raise AnswerMalformed(
                f"the answer is compressed in a way that was not asked for: {_short(encoding)}",
                action="Check what answers between the operator and Prometheus.",
            )
        deadline = time.monotonic() + self._settings.timeout_seconds
        body = bytearray()
        while chunk := response.raw.read1(_CHUNK_BYTES, decode_content=True):
            body += chunk
            if len(body) > self._settings.max_response_bytes:
                response.close()
                raise AnswerTooLarge(
                    f"the answer is larger than {self._settings.max_response_bytes} bytes",
                    action="Check that the scrape interval is not far below a second, or raise the limit.",
                )
            if time.monotonic() > deadline:
                response.close()
                raise requests.ReadTimeout(f"no whole answer within {self._settings.timeout_seconds:g} s")
        response._content = bytes(body)
        response._content_consumed = True
        if response.ok and b'"status":"error"' in body[:200].replace(b" ", b""):
            raise _refused(body[:300].decode(errors="replace"))


def _refused(message: str) -> SourceRefused:
    login = message.startswith(_LOGIN_STATUS)
    action = "Check Prometheus' credentials." if login else "Look at Prometheus' log."
    return SourceRefused(_short(message), action=action)


def _secret(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise SourceRefused(
            f"cannot read {path}", action="Check the Secret with Prometheus' credentials."
        ) from error


def _cause(error: Exception) -> object:
    """Why there was no connection; `requests` tells the whole query first, and a reader would see no more."""
    inner = error.args[0] if error.args else None
    return inner.reason if isinstance(inner, MaxRetryError) and inner.reason is not None else error


def _short(message: object) -> str:
    text = str(message)
    return text if len(text) <= 300 else f"{text[:300]}…"
