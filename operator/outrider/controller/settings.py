"""Settings of the operator. Each is a flag of ``outrider run`` and an ``OUTRIDER_…`` variable."""

from __future__ import annotations

import os
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Self

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    ValidationInfo,
    field_validator,
    model_validator,
)

from outrider.cluster.installation import MAX_NAMESPACES
from outrider.cluster.shards import MAX_SHARDS
from outrider.plan.network_peers import read_peers

SecretName = Annotated[str, Field(pattern=r"^[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?$")]

_NAMESPACE_FILE = Path("/var/run/secrets/kubernetes.io/serviceaccount/namespace")


class LogFormat(StrEnum):
    """The form of log lines."""

    JSON = "json"
    TEXT = "text"


class LeaderElection(StrEnum):
    """Leader election among several replicas of the operator."""

    ON = "on"
    OFF = "off"


class EngineUser(StrEnum):
    """The source of the user ID of engine pods."""

    FIXED = "Fixed"
    PLATFORM = "Platform"


class MetricsSourceKind(StrEnum):
    """The source of measurements."""

    PROMETHEUS = "Prometheus"
    POD_SCRAPE = "PodScrape"


def own_namespace() -> str:
    """The namespace that this pod runs in; ``default`` outside a cluster."""
    if _NAMESPACE_FILE.exists():
        return _NAMESPACE_FILE.read_text(encoding="utf-8").strip()
    return os.environ.get("POD_NAMESPACE", "default")


def _are_peers(text: str) -> str:
    read_peers(text)
    return text


class Settings(BaseModel):
    """The settings of one operator."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)

    prometheus_url: Annotated[str, Field(pattern=r"^https?://")] = "http://prometheus.monitoring.svc:9090"
    """Base URL of the Prometheus server that scrapes the engines."""
    prometheus_token_file: Path | None = None
    """File with a bearer token for Prometheus, read before each query."""
    prometheus_username: str | None = None
    """User name for Prometheus with a password in place of a token."""
    prometheus_password_file: Path | None = None
    """File with that password, read before each query."""
    prometheus_ca_file: Path | None = None
    """PEM file with the authority that signed Prometheus' certificate. Default: the system's."""
    prometheus_timeout_seconds: Annotated[float, Field(gt=0, le=60)] = 5.0
    """Timeout of one answer of Prometheus, in seconds."""
    metrics_source: MetricsSourceKind = MetricsSourceKind.PROMETHEUS
    """Prometheus, or PodScrape: the operator scrapes every engine pod at each tick."""
    tuning_interval_seconds: Annotated[float, Field(ge=1, le=300)] = 10.0
    """Seconds between two ticks of the tuning loop."""
    push_lease_seconds: Annotated[float, Field(ge=5, le=3600)] = 60.0
    """Seconds for which an engine keeps a pushed schedule without renewal; then it uses the static one."""
    engine_timeout_seconds: Annotated[float, Field(gt=0, le=60)] = 3.0
    """Timeout of one answer of an engine's control API, in seconds."""
    scale_settle_seconds: Annotated[float, Field(ge=0, le=3600)] = 30.0
    """Seconds for which the tuner holds after the ready pods of a model changed, so that the load can
    spread."""
    watch_namespaces: Annotated[tuple[str, ...], Field(max_length=MAX_NAMESPACES)] = ()
    """Namespaces to watch, at most 100. Default: all."""
    engine_images: dict[str, str] = Field(default_factory=dict)
    """Default image per engine version, as version=image."""
    plugin_image: Annotated[str | None, Field(min_length=1, max_length=512, pattern=r"^\S+$")] = None
    """Image with Outrider's plugin alone, for engines that run vLLM's own image."""
    engine_user: EngineUser = EngineUser.FIXED
    """Fixed: engine pods run as user 1000. Platform: the platform assigns the user, as OpenShift does."""
    engine_image_pull_secrets: tuple[SecretName, ...] = ()
    """Pull secrets of the engine pods. Each namespace with models needs Secrets of these names."""
    control_peers: dict[str, str] = Field(default_factory=dict)
    """Labels of the operator's own pods, as name=value. With them, engines serve the control API on port
    8091, and each model gets NetworkPolicies that deny by default. They allow the operator's pods to reach
    the control port, the serving port and the port of a download. They allow client_peers to reach the
    serving port, and the pods of a group to reach each other. Default: the serving port, without a policy."""
    client_peers: Annotated[str, AfterValidator(_are_peers)] = '[{"podSelector": {}}]'
    """Peers that may reach the serving port if control_peers are set, as a JSON list of NetworkPolicy peers.
    [] allows the operator only. Default: the pods of the model's own namespace."""
    leader_election: LeaderElection = LeaderElection.ON
    """on, or off if this is the only operator of the cluster; it then leads without a Lease."""
    lease_namespace: str = Field(default_factory=own_namespace)
    """Namespace of the Leases. Default: the operator's own."""
    shards: Annotated[int, Field(ge=1, le=MAX_SHARDS)] = 1
    """Parts of the models, by a hash of namespace and name. Each process manages one part; further processes
    are standbys of any. Shard 1 has the Lease outrider, the others outrider-2 and so on."""
    service_account: str = "outrider"
    """Name of the operator's service account. Other installations check its rights."""
    resync_seconds: Annotated[float, Field(ge=10, le=86_400)] = 300.0
    """Seconds between two full reads of everything that is watched."""
    reconcile_concurrency: Annotated[int, Field(ge=1, le=256)] = 8
    """Maximum number of concurrent reconciles. The models of one namespace take at most half of them. All
    namespaces in which a reconcile took longer than a minute take at most half of them together."""
    http_port: Annotated[int, Field(ge=1, le=65_535)] = 8080
    """Port of /metrics, /healthz and /readyz."""
    traces_url: Annotated[str | None, Field(pattern=r"^https?://[^@\s]+$")] = None
    """URL for traces by OTLP over HTTP, such as http://collector:4318/v1/traces. Default: no traces."""
    log_format: LogFormat = LogFormat.JSON
    """json, one object per line, or text."""
    log_level: Annotated[str, Field(pattern=r"^(DEBUG|INFO|WARNING|ERROR)$")] = "INFO"
    """Minimum severity of log lines: DEBUG, INFO, WARNING or ERROR."""

    @classmethod
    def from_environment(cls) -> Self:
        """The settings of the ``OUTRIDER_…`` variables, for development without the command line."""
        names = {name: f"OUTRIDER_{name.upper()}" for name in cls.model_fields}
        lists = ("watch_namespaces", "engine_images", "engine_image_pull_secrets", "control_peers")
        given = {name: os.environ[variable] for name, variable in names.items() if variable in os.environ}
        return cls.model_validate({k: v.split() if k in lists else v for k, v in given.items()})

    @field_validator("engine_images", "control_peers", mode="before")
    @classmethod
    def _read_pairs(cls, value: object, field: ValidationInfo) -> object:
        if not isinstance(value, list | tuple):
            return value
        pairs = [str(pair).partition("=") for pair in value]
        broken = [name for name, equals, text in pairs if not (name and equals and text)]
        if broken:
            form = "version=image" if field.field_name == "engine_images" else "name=value"
            raise ValueError(f"{broken[0]!r} is not of the form {form}")
        return {name: text for name, _, text in pairs}

    @model_validator(mode="after")
    def _shards_have_leases(self) -> Self:
        if self.shards > 1 and self.leader_election is LeaderElection.OFF:
            raise ValueError("shards above 1 need leader_election: on, because each shard has a Lease")
        return self

    @model_validator(mode="after")
    def _lease_outlives_a_missed_tick(self) -> Self:
        if self.push_lease_seconds < 2 * self.tuning_interval_seconds:
            raise ValueError("push_lease_seconds must be at least twice tuning_interval_seconds")
        return self
