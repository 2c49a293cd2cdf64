"""Where weights appear inside the pod, and the volumes that bring them there."""

from __future__ import annotations

from outrider.api.quantity import Scheme, parse_uri
from outrider.api.spec import Spec

MODELS_FOLDER = "/models"
"""Claims of pvc:// URIs are mounted below this folder, each under its name."""
IMAGES_FOLDER = "/images"
"""Images of oci:// URIs likewise."""


def path_in_pod(uri: str) -> str:
    """What vLLM loads: an absolute path, or ``org/name`` on the Hugging Face hub."""
    location = parse_uri(uri)
    if location.scheme is Scheme.PVC:
        return f"{MODELS_FOLDER}/{location.claim}/{location.path}".rstrip("/")
    if location.image is not None:
        return f"{image_folder(location.image)}/{location.path}".rstrip("/")
    return location.path


def claims(spec: Spec) -> tuple[str, ...]:
    """The PersistentVolumeClaims that hold model, drafter and adapters, each once."""
    locations = [parse_uri(uri) for uri in _uris(spec)]
    return tuple(dict.fromkeys(location.claim for location in locations if location.claim is not None))


def images(spec: Spec) -> tuple[str, ...]:
    """The images that hold model, drafter and adapters, each once."""
    locations = [parse_uri(uri) for uri in _uris(spec)]
    return tuple(dict.fromkeys(location.image for location in locations if location.image is not None))


def image_folder(image: str) -> str:
    """Where an image's files are mounted. Kubernetes takes no colon in a path."""
    return f"{IMAGES_FOLDER}/{image.replace(':', '@')}"


def uses_hub(spec: Spec) -> bool:
    """The engine itself downloads weights or adapters from the Hugging Face hub; their size is not known."""
    return any(parse_uri(uri).scheme is Scheme.HF for uri in _uris(spec))


def each_pod_downloads(spec: Spec) -> bool:
    """No volume keeps what comes from the hub, so every pod fetches it into its own home."""
    return spec.cache is None and uses_hub(spec)


def _uris(spec: Spec) -> tuple[str, ...]:
    drafter = spec.speculation.drafter
    drafters = () if drafter is None else (drafter.uri,)
    return (spec.model.uri, *drafters, *(adapter.uri for adapter in spec.engine.lora_adapters))
