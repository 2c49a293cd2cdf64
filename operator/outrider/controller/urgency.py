"""Which changes in the cluster the tuning loop does not let wait for its next tick. Pure."""

from __future__ import annotations

from outrider.controller.store import Entry, StoredModel, StoredPod


def cannot_wait(before: Entry | None, after: Entry) -> bool:
    """A person changed spec or annotations, or a pod came up that runs without its table."""
    if isinstance(after, StoredPod):
        return after.pod.ready and not (isinstance(before, StoredPod) and before.pod.ready)
    if not isinstance(after, StoredModel) or before is None:
        return False
    old, new = before.metadata, after.metadata
    return (old.uid, old.generation, old.annotations) != (new.uid, new.generation, new.annotations)
