"""Examples and the page of the documentation for each command, which end its help."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Example:
    """One command line, and what it does."""

    does: str
    typed: str


@dataclass(frozen=True, slots=True)
class HelpPage:
    """The end of the help of a command. page: below the documentation."""

    examples: tuple[Example, ...]
    page: str

    def epilog(self) -> str:
        """The text, which keeps its lines."""
        lines = [line for each in self.examples for line in (f"  # {each.does}", f"  {each.typed}")]
        return "\n".join(("\b", "Examples:", *lines, "", "\b", f"Documentation: {self.page}"))


HELP_PAGES: Mapping[str, HelpPage] = {
    "plan": HelpPage(
        (
            Example(
                "Does Qwen3-8B fit on an H100, and how fast is it?",
                "outrider plan --model Qwen3-8B --gpu H100",
            ),
            Example("Judge a manifest", "outrider plan model.yaml --gpu H100"),
            Example(
                "Write a first manifest",
                "outrider plan --model Qwen3-8B --gpu H100 --manifest > model.yaml",
            ),
        ),
        "guide/plan",
    ),
    "render": HelpPage(
        (
            Example("Check a manifest, and show its objects", "outrider render model.yaml"),
            Example(
                "Show the objects of a live model", "kubectl get specmodel qwen3 -o yaml | outrider render -"
            ),
        ),
        "guide/render",
    ),
    "import": HelpPage(
        (
            Example("From a Deployment", "outrider import -f deployment.yaml > model.yaml"),
            Example("From a command line", "outrider import -- vllm serve Qwen/Qwen3-8B --max-num-seqs 64"),
        ),
        "guide/from-a-deployment",
    ),
    "simulate": HelpPage(
        (
            Example(
                "Compare the tuner with a fixed K",
                "outrider simulate --tables tables.json --policy outrider,static:3",
            ),
            Example(
                "Draw goodput and K over time",
                "outrider simulate --tables tables.json --name a40_7b --plot a40.svg",
            ),
        ),
        "guide/simulate",
    ),
    "explain": HelpPage(
        (
            Example("Why does the model have its schedule?", "outrider explain qwen3 -n prod"),
            Example("And ten minutes ago?", "outrider explain qwen3 -n prod --at 10m"),
        ),
        "guide/tuning",
    ),
    "status": HelpPage(
        (
            Example("All models of the cluster", "outrider status -A"),
            Example("One model, until Ctrl-C", "outrider status qwen3 -n prod -w"),
            Example("In another cluster", "outrider status -A --context prod-east"),
        ),
        "guide/on-call",
    ),
    "doctor": HelpPage(
        (
            Example("Check the cluster of the current context", "outrider doctor"),
            Example("For a program", "outrider doctor -o json"),
        ),
        "guide/on-call",
    ),
    "bench": HelpPage(
        (
            Example("Compare the schedule in force with K=0 and K=3", "outrider bench qwen3 -n prod --k 3"),
            Example(
                "With your prompts, and a page with charts",
                "outrider bench qwen3 -n prod --prompts prompts.txt --report bench.html",
            ),
        ),
        "guide/bench",
    ),
    "sweep": HelpPage(
        (
            Example(
                "Measure 1, 4 and 16 streams with every candidate",
                "outrider sweep qwen3 -n prod --streams 1,4,16 --save qwen3.json",
            ),
        ),
        "guide/bench",
    ),
    "verify": HelpPage(
        (
            Example("Compare answers with and without drafts", "outrider verify qwen3 -n prod"),
            Example("From a script", "outrider verify qwen3 -n prod --yes -o json"),
        ),
        "guide/verify",
    ),
    "run": HelpPage(
        (
            Example(
                "Run the operator against a Prometheus",
                "outrider run --prometheus-url http://prometheus.monitoring.svc:9090",
            ),
        ),
        "reference/settings",
    ),
    "crd": HelpPage(
        (Example("Install the definition", "outrider crd | kubectl apply --server-side -f -"),),
        "reference/speculativemodel",
    ),
    "version": HelpPage((Example("Print the version", "outrider version"),), "guide/command-line"),
}
