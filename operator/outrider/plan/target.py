"""The objects that Outrider creates beside pods of another owner: the keys of their control API."""

from __future__ import annotations

from outrider.api.resource import SpeculativeModel
from outrider.plan.children import Manifest, head, limits_data, secret, table_data
from outrider.plan.names import schedule_config_map
from outrider.plan.settings import ControlKeys
from outrider.runtimes.engine_launch import PUBLIC_KEY_FILE
from outrider_protocol.schedule import Schedule


def target_children(
    model: SpeculativeModel, *, keys: ControlKeys, static: Schedule | None
) -> tuple[Manifest, ...]:
    """Return the Secret with the private key, and the ConfigMap that the pods mount.

    static: the static schedule; None before any engine reported it. Outrider reads it after its own restart.
    """
    own = head(model, "v1", "ConfigMap", schedule_config_map(model.metadata.name))
    target = model.spec.target
    limits = {} if target is None else limits_data(target.request_limits)
    schedule = {} if static is None else table_data(static)
    return secret(model, keys=keys), {**own, "data": {PUBLIC_KEY_FILE: keys.public, **schedule, **limits}}
