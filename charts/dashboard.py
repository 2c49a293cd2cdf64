"""The Grafana dashboard of the chart: three questions of a person on call, a row of panels each.

``python -m charts.dashboard --write charts/outrider/dashboards/`` writes it; a test fails when it is stale.
"""

from __future__ import annotations

import json

from charts.grafana import Panel, Query, Row, placed, stat, variable
from outrider.api.generated import write_or_print

FILE_NAME = "outrider.json"
UID = "outrider-speculation"

_OF_MODEL = 'model_namespace=~"$model_namespace", model=~"$model"'
_OF_ENGINE = 'namespace=~"$model_namespace", outrider_dev_model=~"$model"'


def _of_model(metric: str, *by: str) -> str:
    """What the operator shows, whichever replica of it leads."""
    return f"max by ({', '.join(('model_namespace', 'model', *by))}) (outrider_model_{metric}{{{_OF_MODEL}}})"


def _rate(metric: str, *by: str) -> str:
    """What engines count, per second."""
    labels = ", ".join(("namespace", "outrider_dev_model", *by))
    return f"sum by ({labels}) (rate({metric}{{{_OF_ENGINE}}}[$__rate_interval]))"


_MODEL = "{{model_namespace}}/{{model}}"
_ENGINES = "{{namespace}}/{{outrider_dev_model}}"

PAYS = Row(
    "Does speculation pay?",
    (
        Panel(
            "Speedup",
            "Goodput over that of a launch without drafter, with its 95 % interval. Above 1 it pays.",
            (
                Query(_of_model("speedup_ratio"), _MODEL),
                Query(_of_model("speedup_lower_ratio"), f"{_MODEL} lower end"),
                Query(_of_model("speedup_upper_ratio"), f"{_MODEL} upper end"),
            ),
            width=12,
        ),
        stat(
            "Measured",
            "1: the speedup was measured on these engines. 0: it is the estimate of the model.",
            Query(_of_model("speedup_measured"), _MODEL),
        ),
        stat(
            "Stand-ins",
            "1: an engine computes nothing and stands in for a GPU, so no number here is about a real one.",
            Query(_of_model("simulated"), _MODEL),
        ),
        stat(
            "Tokens per drafted step",
            "The bonus token included; 1 means that no draft was accepted.",
            Query(_of_model("acceptance_length_tokens"), _MODEL),
        ),
        Panel(
            "Goodput",
            "Tokens per second of engine time: a capacity, not the demand. It rises with the batch size.",
            (
                Query(
                    f"{_rate('outrider:emitted_tokens_total')} / {_rate('outrider:step_seconds_total')}",
                    _ENGINES,
                ),
            ),
        ),
        Panel(
            "Acceptance",
            "Accepted over drafted tokens of the last minute. Alone it does not say whether drafting pays.",
            (Query(_of_model("acceptance_ratio"), _MODEL),),
            unit="percentunit",
        ),
        Panel(
            "Acceptance by position",
            "Share of the drafts reaching a position whose token there was accepted. "
            "Where deep positions fall off, a larger K is waste.",
            (
                Query(
                    _of_model("position_acceptance_ratio", "position"), f"{_MODEL} position {{{{position}}}}"
                ),
            ),
            unit="percentunit",
        ),
    ),
)

TUNER = Row(
    "What does the tuner do, and why?",
    (
        Panel(
            "K by batch size",
            "The table in force: draft tokens per request and step, for each bin of batch sizes.",
            (Query(_of_model("num_speculative_tokens", "batch"), f"{_MODEL} batch {{{{batch}}}}"),),
            kind="state-timeline",
            width=12,
        ),
        Panel(
            "Decisions by reason",
            "What each tick decided and why. Mostly Hold is what a tuner that has learnt looks like.",
            (
                Query(
                    "sum by (model_namespace, model, kind, reason) "
                    f"(increase(outrider_model_decisions_total{{{_OF_MODEL}}}[$__rate_interval]))",
                    f"{_MODEL} {{{{kind}}}}: {{{{reason}}}}",
                ),
            ),
            width=12,
            stacked=True,
        ),
        Panel(
            "Steps by K",
            "Engine steps per second by the K that they drafted; mixed ones changed K on the way.",
            (Query(_rate("outrider:steps_total", "k"), f"{_ENGINES} K {{{{k}}}}"),),
            stacked=True,
        ),
        Panel(
            "Batch size",
            "Mean number of scheduled requests per engine step and pod: the load that K follows.",
            (Query(_of_model("batch_size"), _MODEL),),
        ),
        Panel(
            "Gain over the static table",
            "Goodput over that of the static table, as believed, of the last half hour. Above 1 tuning pays.",
            (Query(_of_model("static_gain_ratio"), _MODEL),),
        ),
        Panel(
            "Cost of trying",
            "Share of the last minutes' goodput that trying other K has cost, as believed; 1 % is allowed.",
            (Query(_of_model("probe_loss_ratio"), _MODEL),),
            unit="percentunit",
        ),
        Panel(
            "Time in trials",
            "Share of the time in which one of the pods runs another K than its table has.",
            (
                Query(
                    "sum by (model_namespace, model) "
                    f"(rate(outrider_model_probe_seconds_total{{{_OF_MODEL}}}[$__rate_interval]))",
                    _MODEL,
                ),
            ),
            unit="percentunit",
        ),
        Panel(
            "Batch bins",
            "Bins in which engines were. Those that calibrate are still being learnt.",
            (Query(_of_model("batch_bins", "state"), f"{_MODEL} {{{{state}}}}"),),
            stacked=True,
        ),
    ),
)

WRONG = Row(
    "Is anything wrong?",
    (
        Panel(
            "Conditions",
            "As the status has them. docs/runbooks/conditions.md says what to do about each reason.",
            (Query(_of_model("condition", "type", "status", "reason")),),
            kind="table",
            width=12,
        ),
        stat(
            "Leaders",
            "One per installation. 0: nothing is reconciled or tuned.",
            Query("sum by (namespace) (outrider_operator_leader)", "{{namespace}}"),
        ),
        Panel(
            "Pods with the wanted table",
            "Of the ready ones. Fewer for long: see ActuationConverged.",
            (
                Query(_of_model("applied_replicas"), f"{_MODEL} confirmed"),
                Query(_of_model("ready_replicas"), f"{_MODEL} ready"),
            ),
            width=8,
        ),
        Panel(
            "Requests that wait",
            "In the engines' queues. The tuner tries nothing while requests wait.",
            (
                Query(
                    f"sum by (namespace, outrider_dev_model) (vllm:num_requests_waiting{{{_OF_ENGINE}}})",
                    _ENGINES,
                ),
            ),
        ),
        Panel(
            "Work of the operator",
            "Per second: reconciles and pushes by outcome; ticks that met an error, which should be none.",
            (
                Query(
                    "sum by (outcome) (rate(outrider_operator_reconciles_total[$__rate_interval]))",
                    "reconciles {{outcome}}",
                ),
                Query(
                    "sum by (outcome) (rate(outrider_operator_pushes_total[$__rate_interval]))",
                    "pushes {{outcome}}",
                ),
                Query(
                    "sum(rate(outrider_operator_prometheus_errors_total[$__rate_interval]))",
                    "ticks without an answer of Prometheus",
                ),
                Query(
                    "sum(rate(outrider_operator_tuning_failures_total[$__rate_interval]))",
                    "ticks that ended in an error",
                ),
            ),
        ),
        Panel(
            "Time of a tick",
            "Over all models, 99th percentile, and of its queries to Prometheus.",
            (
                Query(
                    "histogram_quantile(0.99, sum by (le) "
                    "(rate(outrider_operator_tuning_tick_seconds_bucket[$__rate_interval])))",
                    "tick",
                ),
                Query(
                    "histogram_quantile(0.99, sum by (le) "
                    "(rate(outrider_operator_prometheus_query_seconds_bucket[$__rate_interval])))",
                    "queries",
                ),
            ),
            unit="s",
        ),
        Panel(
            "Cost of counting",
            "Share of engine time in the plugin's own hooks.",
            (
                Query(
                    f"{_rate('outrider:hook_seconds_total')} / {_rate('outrider:step_seconds_total')}",
                    _ENGINES,
                ),
            ),
            unit="percentunit",
            width=12,
        ),
        Panel(
            "Failed hooks",
            "Above 0: the plugin in an engine has stopped counting; see OutriderEnginePluginNotCounting.",
            (
                Query(
                    f"sum by (namespace, pod) (outrider:hook_failures_total{{{_OF_ENGINE}}})",
                    "{{namespace}}/{{pod}}",
                ),
            ),
            width=12,
        ),
    ),
)

ROWS = (PAYS, TUNER, WRONG)


def render() -> str:
    """The text of the file."""
    board = {
        "uid": UID,
        "title": "Outrider: speculative decoding",
        "description": "Does speculation pay, what does the tuner do and why, is anything wrong?",
        "tags": ["outrider", "vllm", "llm"],
        "schemaVersion": 39,
        "editable": True,
        "graphTooltip": 1,
        "refresh": "30s",
        "time": {"from": "now-1h", "to": "now"},
        "timezone": "",
        "templating": {"list": _variables()},
        "annotations": {"list": []},
        "panels": list(placed(ROWS)),
    }
    return json.dumps(board, indent=1) + "\n"


def _variables() -> list[dict[str, object]]:
    of_namespace = 'outrider_model_condition{model_namespace=~"$model_namespace"}'
    return [
        {"name": "datasource", "label": "Data source", "type": "datasource", "query": "prometheus"},
        variable("model_namespace", "Namespace", "label_values(outrider_model_condition, model_namespace)"),
        variable("model", "Model", f"label_values({of_namespace}, model)"),
    ]


if __name__ == "__main__":
    write_or_print("charts.dashboard", FILE_NAME, render)
