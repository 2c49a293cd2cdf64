"""Which container of a pod is the engine."""

from __future__ import annotations

from outrider.importing.findings import ImportRefused, NoEngine
from outrider.importing.workload import Workload, objects, text
from outrider.plan.overlay import Json


def engine_container(workload: Workload, named: str | None) -> Json:
    """The container that runs vLLM. named: by the user.

    Raises:
        ImportRefused: there is none, or more than one may be it.
    """
    containers = objects(workload.pod.get("containers"))
    wanted = named or workload.container
    names = ", ".join(text(each.get("name")) or "?" for each in containers) or "none"
    if wanted is not None:
        found = [each for each in containers if each.get("name") == wanted]
        if named is not None and not found:
            raise ImportRefused(f"there is no container {named}; its containers: {names}")
        if len(found) == 1:
            return found[0]
    likely = [each for each in containers if _runs_vllm(each)]
    if len(likely) == 1:
        return likely[0]
    if len(containers) == 1 and _has_flags(containers[0]):
        return containers[0]
    if not likely:
        raise NoEngine(
            f"no container runs vLLM; name the one that does with --container. Its containers: {names}"
        )
    raise ImportRefused(
        f"more than one container may run vLLM; name one with --container. Its containers: {names}"
    )


def words_of(container: Json, field: str) -> list[str]:
    """``command`` or ``args`` as words.

    Raises:
        ImportRefused: it is something else.
    """
    value = container.get(field) or []
    if not isinstance(value, list) or not all(isinstance(each, str | int | float) for each in value):
        raise ImportRefused(f"{field} of the container must be a list of texts; write one text for each word")
    return [str(each).lower() if isinstance(each, bool) else str(each) for each in value]


def _runs_vllm(container: Json) -> bool:
    image = (text(container.get("image")) or "").lower()
    words = [str(each) for field in ("command", "args") for each in _list(container.get(field))]
    return "vllm" in image or any(
        "vllm serve" in word or "vllm.entrypoints" in word or word == "vllm" for word in words
    )


def _has_flags(container: Json) -> bool:
    words = [str(each) for each in _list(container.get("args"))]
    return any(word.partition("=")[0] in ("--model", "--served-model-name") for word in words)


def _list(value: object) -> list[object]:
    return value if isinstance(value, list) else []
