"""Where the weights of a source lie, as a URI of ``spec.model`` or of the drafter."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from pydantic import TypeAdapter, ValidationError

from outrider.api.json_object import Json
from outrider.api.quantity import Uri
from outrider.importing.findings import ImportRefused
from outrider.importing.workload import an_object, objects, text

_URI: TypeAdapter[str] = TypeAdapter(Uri)
_SCHEME = re.compile(r"([a-z][a-z0-9+.-]*)://(.*)", re.DOTALL)
_HUB = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*/[A-Za-z0-9][A-Za-z0-9._-]*")


@dataclass(frozen=True, slots=True)
class Mount:
    """A volume at a path of the engine's container."""

    volume: str
    path: str
    sub_path: str
    source: Json  # the volume

    @property
    def claim(self) -> str | None:
        """The PersistentVolumeClaim; None of other volumes."""
        return text(an_object(self.source.get("persistentVolumeClaim")).get("claimName"))

    def holds(self, path: str) -> bool:
        """Whether a path lies on the volume."""
        return path == self.path or path.startswith(self.path.rstrip("/") + "/")


@dataclass(frozen=True, slots=True)
class Place:
    """Where weights lie."""

    uri: str
    revision: str | None = None
    mount: Mount | None = None  # in whose place Outrider mounts the same claim


def place_of(model: str, found: list[Mount]) -> Place:
    """The URI of what vLLM's ``--model`` says.

    Raises:
        ImportRefused: no URI of Outrider has this place.
    """
    if "$(" in model:
        raise ImportRefused(
            f"the model is {model}, whose value the source does not have; write the model's name in its place"
        )
    scheme = _SCHEME.fullmatch(model)
    if scheme is not None:
        return _of_uri(scheme[1], scheme[2])
    if model.startswith("/"):
        return _of_path(model.rstrip("/") or model, found)
    if _HUB.fullmatch(model):
        return Place(_checked(f"hf://{model}"))
    raise ImportRefused(
        f"the model is {model!r}; write organisation/name of the Hugging Face hub, or an absolute path"
    )


def mounts(pod: Json, container: Json) -> Iterator[Mount]:
    """The mounts of a container that name a volume of its pod."""
    volumes = {text(each.get("name")): each for each in objects(pod.get("volumes"))}
    for each in objects(container.get("volumeMounts")):
        name, path = text(each.get("name")), text(each.get("mountPath"))
        if name is not None and path is not None:
            sub_path = text(each.get("subPath")) or ("?" if "subPathExpr" in each else "")
            yield Mount(name, path, sub_path, volumes.get(name, {}))


def _of_path(path: str, found: list[Mount]) -> Place:
    holding = sorted((each for each in found if each.holds(path)), key=lambda each: len(each.path))
    mount = holding[-1] if holding else None
    if mount is not None and mount.claim is not None and mount.sub_path != "?":
        parts = (mount.sub_path.strip("/"), path[len(mount.path.rstrip("/")) :].strip("/"))
        inside = "/".join(filter(None, parts))
        return Place(_checked(f"pvc://{mount.claim}/{inside}".rstrip("/")), mount=mount)
    return Place(_checked(f"file://{path}"))


def _of_uri(scheme: str, rest: str) -> Place:
    rest = rest.partition("?")[0].rstrip("/")
    if scheme == "hf":
        name, _, revision = rest.replace("@", ":").partition(":")
        return Place(_checked(f"hf://{name}"), revision or None)
    if scheme in ("s3", "pvc", "oci", "file"):
        return Place(_checked(f"{scheme}://{rest}"))
    raise ImportRefused(
        f"the weights are at {scheme}://; Outrider reads hf://, s3://, oci://, pvc:// and file://, move them"
    )


def _checked(uri: str) -> str:
    try:
        return _URI.validate_python(uri)
    except ValidationError as error:
        message = error.errors(include_url=False, include_input=False)[0]["msg"].removeprefix("Value error, ")
        raise ImportRefused(
            f"the weights are at {uri}, which spec.model.uri does not take: {message}"
        ) from error
