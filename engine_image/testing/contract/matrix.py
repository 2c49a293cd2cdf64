"""What each method does when K changes, read from vLLM's source, to be compared with the plugin's table.

What the source does not show is omitted, never guessed.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from engine_image.testing.contract.source import Function, Source, attributes
from outrider_protocol.releases import (
    ADAPTIVE_SINCE,
    ADAPTIVE_VERIFICATION,
    MODULES,
    PARALLEL,
    RESPONSES,
    Response,
    Runner,
    Version,
    response,
)

CONFIG = "vllm/config/vllm.py"
SPECULATIVE = "vllm/config/speculative.py"
V1_RUNNER = "vllm/v1/worker/gpu_model_runner.py"
V2_RUNNER = "vllm/v1/worker/gpu/model_runner.py"
V2_SPECULATORS = "vllm/v1/worker/gpu/spec_decode/__init__.py"
SEVERAL_MODULES = "/multi_module_mtp/"
BASE_PROPOSER = "vllm/v1/spec_decode/llm_base_proposer.py"

_WEAKEST_FIRST = (Response.BREAKS, Response.FULL_LENGTH, Response.WIDTH, Response.FOLLOWS)

_CUTS_DRAFTS = (
    "num_speculative_tokens=num_spec_tokens",
    "draft_tokens[:, num_spec_tokens:] = -1",
    "self.draft_tokens_handler.set_draft_tokens(input_batch,",
    ":num_spec_tokens]",
)
"""In V2's runner after a draft: K goes to the drafter, and a scheduler gets the first K drafts of a request.
An asynchronous scheduler places K placeholders by the same number. It trims drafts that go through a grammar
to them (``Scheduler.update_draft_token_ids_in_output``)."""

_NO_DRAFTS = frozenset({"extract_hidden_states"})
"""They inherit what a drafter has, and draft nothing."""

UNREADABLE = frozenset({("dspark", Runner.V1)})
"""dspark takes EAGLE's branch on V1, whose proposer cannot load its weights; no rule here shows that."""


def differences(source: Source, version: Version) -> list[str]:
    """Where the source says another thing than `RESPONSES`."""
    found: list[str] = []
    for name in RESPONSES:
        for runner in Runner:
            if (name, runner) in UNREADABLE:
                continue
            expected, read = response(name, runner, version), read_response(source, name, runner)
            if expected is not read:
                found.append(f"{name} on {runner}: the table says {expected}, the source {read}")
    for method in sorted(RESPONSES.keys() - _NO_DRAFTS):
        listed = method in ADAPTIVE_SINCE and version >= ADAPTIVE_SINCE[method]
        if listed is not verifies_adaptively(source, method):
            found.append(f"{method} verified adaptively: the table says {listed}, the source {not listed}")
    return found


def verifies_adaptively(source: Source, method: str) -> bool:
    """Whether the V2 runner can leave drafts of a method unverified, by its speculator and the checks."""
    speculators = [] if PARALLEL in method else _classes_of(source, V2_SPECULATORS, "init_speculator", method)
    checked = source.definition(SPECULATIVE, "SpeculativeConfig")
    for branch in _branches(checked):
        test = ast.unparse(branch.test)
        if test == f"self.method != 'dspark' and self.{ADAPTIVE_VERIFICATION}" and method != "dspark":
            return False
    return any(
        ADAPTIVE_VERIFICATION in attributes(base) for place in speculators for _, base in source.bases(*place)
    )


def read_response(source: Source, name: str, runner: Runner) -> Response | str:
    """The response of a method by the source; a text when its code has a shape that is not known."""
    method, parallel = name.removesuffix(PARALLEL).removesuffix(MODULES), name.endswith(PARALLEL)
    if method not in _methods(source):
        return Response.ABSENT
    if runner is Runner.V2:
        return _on_v2(source, method, parallel=parallel, modules=name.endswith(MODULES))
    return _on_v1(source, method, parallel=parallel)


def _on_v1(source: Source, method: str, *, parallel: bool) -> Response | str:
    classes = _classes_of(source, V1_RUNNER, "GPUModelRunner.__init__", method, assigned_to="self.drafter")
    if not classes:
        return Response.ABSENT
    gate = source.definition(CONFIG, "VllmConfig._maybe_disable_dynamic_sd_for_v1")
    if gate is not None and method not in _texts(gate):
        return Response.TABLE_DROPPED
    if not _passes_k(source, method):
        return Response.FULL_LENGTH
    if parallel:
        return _parallel_response(source)
    answers = [_proposer_response(source, path, name) for path, name in classes]
    return next((a for a in _WEAKEST_FIRST if a in answers), "no proposer takes K")


def _on_v2(source: Source, method: str, *, parallel: bool, modules: bool) -> Response | str:
    if parallel and "parallel drafting for EAGLE speculative decoding" in _texts(source.module(CONFIG)):
        return Response.ABSENT
    found = _classes_of(source, V2_SPECULATORS, "init_speculator", method)
    several = [place for place in found if SEVERAL_MODULES in place[0]]
    classes = several or found if modules else [place for place in found if place not in several]
    if not classes:
        return Response.ABSENT
    runner = source.definition(V2_RUNNER, "GPUModelRunner.sample_tokens")
    if not _mentions(source.module(V2_RUNNER), "num_spec_tokens_to_schedule"):
        return Response.FULL_LENGTH
    if runner is None or not all(part in ast.unparse(runner) for part in _CUTS_DRAFTS):
        return "the V2 runner cuts drafts in another shape"
    answers = [_speculator_response(source, path, name) for path, name in classes]
    return next((a for a in _WEAKEST_FIRST if a in answers), "no speculator takes K")


def _methods(source: Source) -> frozenset[str]:
    """The methods that the configuration accepts."""
    tree = source.module(SPECULATIVE)
    types = [
        n for n in (tree.body if tree else []) if isinstance(n, ast.Assign) and "Literal[" in ast.unparse(n)
    ]
    return frozenset[str]().union(*map(_texts, types))


def _classes_of(
    source: Source, path: str, function: str, method: str, *, assigned_to: str | None = None
) -> list[tuple[str, str]]:
    """The classes that the branches for a method construct, with their files.

    assigned_to: what the branch assigns them to; None when it returns them.
    """
    definition = source.definition(path, function)
    found: list[tuple[str, str]] = []
    for branch in _branches(definition):
        accepted, certain = _accepts(source, branch.test)
        if method not in accepted:
            continue
        for statement in (part for body in branch.body for part in ast.walk(body)):
            made = _constructed(statement, assigned_to)
            place = None if made is None else _imported(source, path, made, [branch])
            found += [place] if place is not None else []
        if certain and found:
            break
    return found


def _branches(definition: ast.AST | None) -> Iterator[ast.If]:
    """Every ``if`` and ``elif`` of a function, in order."""
    if definition is not None:
        yield from sorted((n for n in ast.walk(definition) if isinstance(n, ast.If)), key=lambda n: n.lineno)


def _accepts(source: Source, test: ast.expr) -> tuple[frozenset[str], bool]:
    """The methods for which a condition can hold, and whether it holds for sure."""
    if isinstance(test, ast.Call) and isinstance(test.func, ast.Attribute):
        asked = source.definition(SPECULATIVE, f"SpeculativeConfig.{test.func.attr}")
        if asked is None:
            return frozenset(), False
        return _compared_methods(asked), not any(isinstance(n, ast.BoolOp) for n in ast.walk(asked))
    return _compared_methods(test), isinstance(test, ast.Compare)


def _compared_methods(node: ast.AST) -> frozenset[str]:
    """The texts with which ``….method`` is compared."""
    compared = [
        part
        for part in ast.walk(node)
        if isinstance(part, ast.Compare)
        and isinstance(part.left, ast.Attribute)
        and part.left.attr == "method"
    ]
    return frozenset[str]().union(*map(_texts, compared))


def _constructed(statement: ast.AST, assigned_to: str | None) -> str | None:
    """The class that a statement constructs and assigns or returns."""
    match statement:
        case ast.Return(value=ast.Call(func=made)) if assigned_to is None:
            return ast.unparse(made)
        case ast.Assign(targets=[target], value=ast.Call(func=made)) if ast.unparse(target) == assigned_to:
            return ast.unparse(made)
        case _:
            return None


def _imported(source: Source, path: str, name: str, scopes: list[ast.If]) -> tuple[str, str] | None:
    """The file and name of a class that a branch or its module imports."""
    for node in (part for scope in scopes for part in ast.walk(scope)):
        if isinstance(node, ast.ImportFrom) and node.module and name in [alias.name for alias in node.names]:
            found = source.path_of(node.module)
            return None if found is None else (found, name)
    return source.resolve(path, name)


def _passes_k(source: Source, method: str) -> bool:
    """Whether the V1 runner hands the K of the step to this method's proposer."""
    definition = source.definition(V1_RUNNER, "GPUModelRunner.propose_draft_token_ids")
    for branch in _branches(definition):
        tests = branch.test.values if isinstance(branch.test, ast.BoolOp) else [branch.test]
        if any(method in _accepts(source, test)[0] for test in tests):
            return any(_mentions(node, "num_spec_tokens_to_schedule") for node in branch.body)
    return False


def _proposer_response(source: Source, path: str, name: str) -> Response | str:
    """By the ``propose`` of a V1 proposer: it asserts the configured K, or takes the one of the step."""
    propose = _method(source, path, name, "propose")
    if propose is None:
        # A factory of a custom class.
        return Response.FULL_LENGTH
    text = ast.unparse(propose)
    if "assert num_speculative_tokens == self." in text:
        return Response.BREAKS
    if (
        "self.num_speculative_tokens = num_speculative_tokens" in text
        or "assert num_speculative_tokens <= " in text
    ):
        return Response.FOLLOWS
    return f"{name}.propose has another shape"


def _parallel_response(source: Source) -> Response | str:
    """Inputs are laid out for the K of the launch, the drafts reshaped by the K of the step."""
    init = source.definition(BASE_PROPOSER, "SpecDecodeBaseProposer.__init__")
    first = source.definition(BASE_PROPOSER, "SpecDecodeBaseProposer.set_inputs_first_pass")
    propose = source.definition(BASE_PROPOSER, "SpecDecodeBaseProposer.propose")
    if init is None or first is None or propose is None:
        return "the base proposer has another shape"
    at_launch = (
        "self.extra_slots_per_request = 1 if not self.parallel_drafting else self.num_speculative_tokens"
    )
    if (
        at_launch in ast.unparse(init)
        and "batch_size * self.extra_slots_per_request" in ast.unparse(first)
        and "draft_token_ids.view(-1, self.num_speculative_tokens)" in ast.unparse(propose)
        and "extra_slots_per_request" not in ast.unparse(propose)
    ):
        return Response.BREAKS
    return "parallel drafting has another shape"


def _speculator_response(source: Source, path: str, name: str) -> Response:
    """By the ``propose`` of a V2 speculator: whether the K of the step does more than skip drafting at 0."""
    propose = _method(source, path, name, "propose")
    if propose is None:
        return Response.WIDTH
    skipping = {
        id(part)
        for node in ast.walk(propose)
        if isinstance(node, ast.Compare) and ast.unparse(node) == "num_speculative_tokens == 0"
        for part in ast.walk(node)
    }
    uses = (n for n in ast.walk(propose) if isinstance(n, ast.Name) and n.id == "num_speculative_tokens")
    used = any(isinstance(n.ctx, ast.Load) and id(n) not in skipping for n in uses)
    return Response.FOLLOWS if used else Response.WIDTH


def _method(source: Source, path: str, name: str, method: str) -> Function | None:
    """The method of a class or of its nearest base that has it."""
    for place, definition in source.bases(path, name):
        found = source.definition(place, f"{definition.name}.{method}")
        if isinstance(found, Function):
            return found
    return None


def _texts(node: ast.AST | None) -> frozenset[str]:
    nodes = () if node is None else ast.walk(node)
    return frozenset(n.value for n in nodes if isinstance(n, ast.Constant) and isinstance(n.value, str))


def _mentions(node: ast.AST | None, name: str) -> bool:
    nodes = () if node is None else ast.walk(node)
    return any(
        (isinstance(n, ast.Name) and n.id == name) or (isinstance(n, ast.Attribute) and n.attr == name)
        for n in nodes
    )
