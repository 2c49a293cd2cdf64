"""Examples and the page of the documentation for each command, which end its help."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class HelpPage:
    """The end of the help of a command. page: below the documentation. examples: purpose -> command line."""

    page: str
    examples: Mapping[str, str]

    def epilog(self) -> str:
        """The text, which keeps its lines."""
        lines = [line for does, typed in self.examples.items() for line in (f"  # {does}", f"  {typed}")]
        return "\n".join(("\b", "Examples:", *lines, "", "\b", f"Documentation: {self.page}"))


HELP_PAGES: Mapping[str, HelpPage] = {
    "plan": HelpPage(
        "guide/plan",
        {
            "Does Qwen3-8B fit on an H100, and how fast is it?": "outrider plan --model Qwen3-8B --gpu H100",
            "Judge a manifest": "outrider plan model.yaml --gpu H100",
            "Write a first manifest": "outrider plan --model Qwen3-8B --gpu H100 --manifest > model.yaml",
        },
    ),
    "render": HelpPage(
        "guide/render",
        {
            "Check a manifest, and show its objects": "outrider render model.yaml",
            "Show the objects of a live model": "kubectl get specmodel qwen3 -o yaml | outrider render -",
        },
    ),
    "import": HelpPage(
        "guide/from-a-deployment",
        {
            "From a Deployment": "outrider import -f deployment.yaml > model.yaml",
            "From a command line": "outrider import -- vllm serve Qwen/Qwen3-8B --max-num-seqs 64",
        },
    ),
    "inject": HelpPage(
        "guide/engine-image",
        {
            "Add the plugin to the pods of a Deployment": (
                "outrider inject -f deployment.yaml --plugin-image REGISTRY/outrider-plugin:1"
            ),
        },
    ),
    "simulate": HelpPage(
        "guide/simulate",
        {
            "Compare the tuner with a fixed K": (
                "outrider simulate --tables tables.json --policy outrider,static:3"
            ),
            "Draw goodput and K over time": (
                "outrider simulate --tables tables.json --name a40_7b --plot a40.svg"
            ),
        },
    ),
    "explain": HelpPage(
        "guide/tuning",
        {
            "Why does the model have its schedule?": "outrider explain qwen3 -n prod",
            "And ten minutes ago?": "outrider explain qwen3 -n prod --at 10m",
        },
    ),
    "status": HelpPage(
        "guide/on-call",
        {
            "All models of the cluster": "outrider status -A",
            "One model, until Ctrl-C": "outrider status qwen3 -n prod -w",
            "In another cluster": "outrider status -A --context prod-east",
        },
    ),
    "doctor": HelpPage(
        "guide/on-call",
        {
            "Check the cluster of the current context": "outrider doctor",
            "For a program": "outrider doctor -o json",
        },
    ),
    "bench": HelpPage(
        "guide/bench",
        {
            "Compare the schedule in force with K=0 and K=3": "outrider bench qwen3 -n prod --k 3",
            "With your prompts, and a page with charts": (
                "outrider bench qwen3 -n prod --prompts prompts.txt --report bench.html"
            ),
        },
    ),
    "sweep": HelpPage(
        "guide/bench",
        {
            "Measure 1, 4 and 16 streams with every candidate": (
                "outrider sweep qwen3 -n prod --streams 1,4,16 --save qwen3.json"
            ),
        },
    ),
    "verify": HelpPage(
        "guide/verify",
        {
            "Compare answers with and without drafts": "outrider verify qwen3 -n prod",
            "From a script": "outrider verify qwen3 -n prod --yes -o json",
        },
    ),
    "run": HelpPage(
        "reference/settings",
        {
            "Run the operator against a Prometheus": (
                "outrider run --prometheus-url http://prometheus.monitoring.svc:9090"
            ),
        },
    ),
    "crd": HelpPage(
        "reference/speculativemodel",
        {
            "Install the definition": "outrider crd | kubectl apply --server-side -f -",
        },
    ),
    "version": HelpPage(
        "guide/command-line",
        {
            "Print the version": "outrider version",
        },
    ),
}
