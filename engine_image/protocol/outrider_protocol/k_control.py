"""How K acts on each model runner, and which runner an engine takes. Operator and plugin agree here."""

from __future__ import annotations

from collections.abc import Collection
from enum import StrEnum

from outrider_protocol.methods import TRAITS
from outrider_protocol.releases import FOLLOWS_WITH_PLUGIN, Response, Runner, Version, response


class KControl(StrEnum):
    """What a change of K does in a running engine."""

    FOLLOWS = "follows"
    """The drafter makes K tokens."""
    WIDTH = "verification width"
    """The drafter makes the configured number of tokens, and K of them are verified."""
    ONE_K = "one K"
    """K does not change."""


_SAME_COST = frozenset(method.variant for method, traits in TRAITS.items() if traits.same_cost)


def k_control(name: str, runner: Runner, version: Version, *, plugin: bool) -> KControl:
    """What a change of K does with a method, by its name in `outrider_protocol.releases.RESPONSES`.

    plugin: the engine has Outrider's plugin, which makes some drafters follow.
    """
    since = FOLLOWS_WITH_PLUGIN.get(name)
    if plugin and runner is Runner.V2 and since is not None and version >= since:
        return KControl.FOLLOWS
    match response(name, runner, version):
        case Response.FOLLOWS:
            return KControl.FOLLOWS
        case Response.WIDTH:
            return KControl.WIDTH
        case _:
            return KControl.ONE_K


def best_runner(
    name: str, version: Version, *, plugin: bool, runners: Collection[Runner] = tuple(Runner)
) -> Runner | None:
    """The runner on which K changes at the least cost; None where it changes on none of ``runners``.

    V2 has CUDA graphs for every K. It comes first where its drafter follows K, or where a draft costs the
    same for every K. Elsewhere a drafter of full length costs more than missing graphs, so V1 comes first.
    """
    acts = {runner: k_control(name, runner, version, plugin=plugin) for runner in runners}
    width_is_enough = acts.get(Runner.V2) is KControl.WIDTH and name in _SAME_COST
    if width_is_enough or acts.get(Runner.V2) is KControl.FOLLOWS:
        return Runner.V2
    if acts.get(Runner.V1) is KControl.FOLLOWS:
        return Runner.V1
    return Runner.V2 if acts.get(Runner.V2) is KControl.WIDTH else None
