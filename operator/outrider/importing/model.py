"""``spec.model`` and ``spec.cache``: the weights, the names for clients, and the token for the hub."""

from __future__ import annotations

from collections.abc import Mapping

from pydantic import JsonValue, TypeAdapter, ValidationError

from outrider.api.json_object import Json
from outrider.api.model import ServedName
from outrider.api.quantity import ContextLength
from outrider.importing.findings import Findings
from outrider.importing.flags import Flags
from outrider.importing.weights import Mount, Place
from outrider.importing.workload import Workload, an_object, text

_NAME: TypeAdapter[str] = TypeAdapter(ServedName)
_LENGTH: TypeAdapter[int | str] = TypeAdapter(ContextLength)
_ALIASES = 16
_HUB_FOLDERS = (
    "/root/.cache/huggingface",
    "/root/.cache/huggingface/hub",
    "/root/.cache",
    "/home/vllm/.cache/huggingface",
)
_HUB_VARIABLES = ("HF_HOME", "HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE", "TRANSFORMERS_CACHE", "HF_HUB_HOME")
_A_GUESS = "200Gi"


def model_fields(place: Place, flags: Flags, *, asked_for: str, workload: Workload) -> Json:
    """``spec.model`` without the token. asked_for: the name by which clients ask where no flag names one."""
    findings = workload.findings
    fields: Json = {"uri": place.uri}
    revision = flags.pop("revision", None) or place.revision
    if isinstance(revision, str | int | float):
        if place.uri.startswith(("hf://", "s3://")):
            fields["revision"] = str(revision)
        else:
            findings.dropped("--revision", "only hf:// and s3:// models have revisions")
    names = _names(flags.pop("served-model-name", None), workload.served_name or asked_for, findings)
    if names:
        fields["servedName"] = names[0]
    if names[1:]:
        fields["servedAliases"] = list(names[1:])
    length = flags.pop("max-model-len", None)
    if length is not None:
        written = "auto" if length == -1 else length
        try:
            _LENGTH.validate_python(written)
            fields["maxLength"] = written
        except ValidationError:
            findings.dropped("--max-model-len", "it must be a number of tokens; set spec.model.maxLength")
    return fields


def own_cache(
    place: Place, workload: Workload, mounts: list[Mount], flags: Flags, variables: Mapping[str, str]
) -> tuple[Json, list[Mount]]:
    """``spec.cache``, and the mounts in whose place Outrider mounts it."""
    findings = workload.findings
    if place.uri.startswith("s3://"):
        findings.check(
            "spec.cache.size", f"Outrider downloads s3:// weights onto a claim; {_A_GUESS} is a guess"
        )
        return {"size": _A_GUESS}, []
    if not place.uri.startswith("hf://"):
        return {}, []
    folder = flags.get("download-dir")
    folders = {*_HUB_FOLDERS, *(variables[name] for name in _HUB_VARIABLES if name in variables)}
    folders |= {folder} if isinstance(folder, str) else set()
    for mount in mounts:
        if not any(mount.holds(each) or each == mount.path for each in folders) or mount.path == "/":
            continue
        found = _cache(mount, workload)
        if found is not None:
            if folder is not None:
                flags.pop("download-dir")
                findings.dropped("--download-dir", "spec.cache downloads the weights before engines start")
            return found, [mount]
    return {}, []


def _cache(mount: Mount, workload: Workload) -> Json | None:
    findings = workload.findings
    what = f"volume {mount.volume} at {mount.path}"
    if mount.claim is not None:
        findings.check(
            what,
            "it is spec.cache.claim now: Outrider downloads the weights once more, into a folder of its own",
        )
        return {"claim": mount.claim}
    if mount.volume in workload.claims:
        claim = workload.claims[mount.volume]
        size = text(an_object(an_object(claim.get("resources")).get("requests")).get("storage"))
        if size is None:
            return None
        modes = claim.get("accessModes")
        shared = isinstance(modes, list) and "ReadWriteMany" in modes
        fields: Json = {
            "size": size,
            "storageClass": text(claim.get("storageClassName")),
            "accessMode": "ReadWriteMany" if shared else None,
        }
        cache: Json = {name: value for name, value in fields.items() if value is not None}
        findings.check(
            what,
            "it is spec.cache now: one claim for all pods, which Outrider makes, in place of one for each",
        )
        return cache
    if "emptyDir" in mount.source:
        findings.dropped(
            what, "each pod has a volume for its home, where downloads go; spec.cache keeps them"
        )
        return {}
    return None


def _names(given: JsonValue, otherwise: str, findings: Findings) -> list[str]:
    values = given if isinstance(given, list) else [otherwise if given is None else given]
    names = list[str]()
    for value in values:
        try:
            name = _NAME.validate_python(str(value))
        except ValidationError:
            findings.dropped(
                f"--served-model-name {value}",
                "a served name has no blanks or commas; set spec.model.servedName",
            )
            continue
        if name not in names:
            names.append(name)
    if len(names) > _ALIASES + 1:
        findings.dropped(
            "--served-model-name", f"Outrider takes {_ALIASES + 1} names; these are the first ones"
        )
    return names[: _ALIASES + 1]


def without_lost_folders(
    carried: list[JsonValue], mounts: list[Mount], replaced: list[Mount], findings: Findings
) -> list[JsonValue]:
    """Variables without those that send downloads to a folder that is no longer there, or is read-only."""
    kept = list[JsonValue]()
    for each in carried:
        entry = an_object(each)
        name, value = str(entry.get("name")), text(entry.get("value"))
        on_volume = [mount for mount in mounts if value is not None and mount.holds(value)]
        if name in _HUB_VARIABLES and value is not None and (not on_volume or on_volume[0] in replaced):
            findings.dropped(
                f"env {name}",
                "its folder is on no volume of the new pod; weights go to spec.cache or the home folder",
            )
        else:
            kept.append(each)
    return kept
