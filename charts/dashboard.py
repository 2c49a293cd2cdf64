"""The Grafana dashboard of the chart: one row of panels for each of three questions on call.

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
    """A query for a metric of the operator, from whichever replica leads."""
    return f"max by ({', '.join(('model_namespace', 'model', *by))}) (outrider_model_{metric}{{{_OF_MODEL}}})"


_TRIMMED = "outrider:trimmed_draft_tokens_total"


def _rate(metric: str, *by: str) -> str:
    """A query for the rate of an engine counter per second."""
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
            "1: the speedup was measured on these engines. 0: it is an estimate of the tuner.",
            Query(_of_model("speedup_measured"), _MODEL),
        ),
        stat(
            "Simulated engines",
            "1: an engine is simulated and computes nothing, so no number here is of a real GPU.",
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
            "Accepted over drafted tokens of the last minute. It does not show whether drafting pays.",
            (Query(_of_model("acceptance_ratio"), _MODEL),),
            unit="percentunit",
        ),
        Panel(
            "Acceptance by position",
            "Acceptance rate at a position, of the drafts that reach it. "
            "If it is low at deep positions, a larger K does not pay.",
            (
                Query(
                    _of_model("position_acceptance_ratio", "position"), f"{_MODEL} position {{{{position}}}}"
                ),
            ),
            unit="percentunit",
        ),
        Panel(
            "Gain of a new drafter",
            "Goodput with the last new drafter over that with the one before, with its 95 % interval. "
            "Above 1 the new one is better.",
            (
                Query(_of_model("drafter_gain_ratio"), _MODEL),
                Query(_of_model("drafter_gain_lower_ratio"), f"{_MODEL} lower end"),
                Query(_of_model("drafter_gain_upper_ratio"), f"{_MODEL} upper end"),
            ),
        ),
        Panel(
            "Acceptance by LoRA adapter",
            "Accepted over verified tokens of engines with LoRA adapters. "
            "Requests without an adapter have the model's name.",
            (
                Query(
                    f"{_rate('outrider:adapter_accepted_tokens_total', 'adapter')} / "
                    f"{_rate('outrider:adapter_draft_tokens_total', 'adapter')}",
                    f"{_ENGINES} {{{{adapter}}}}",
                ),
            ),
            unit="percentunit",
        ),
        Panel(
            "Trimmed drafts",
            "Ratio of draft tokens that adaptive verification left unverified. "
            "If most are trimmed, a smaller K saves their drafting.",
            (
                Query(
                    f"{_rate(_TRIMMED)} / ({_rate(_TRIMMED)} + {_rate('outrider:draft_tokens_total')})",
                    _ENGINES,
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
            "The present schedule: draft tokens per request and step, by batch bin.",
            (Query(_of_model("num_speculative_tokens", "batch"), f"{_MODEL} batch {{{{batch}}}}"),),
            kind="state-timeline",
            width=12,
        ),
        Panel(
            "Decisions by reason",
            "Decisions of the ticks by kind and reason. A settled tuner mostly holds.",
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
            "Engine steps per second by the K that they drafted; mixed ones are at a change of K.",
            (Query(_rate("outrider:steps_total", "k"), f"{_ENGINES} K {{{{k}}}}"),),
            stacked=True,
        ),
        Panel(
            "Engines that choose K at each step",
            "Engines in which the fast loop chooses K by the operator's cost model. Others use the schedule.",
            (
                Query(
                    f"sum by (namespace, outrider_dev_model) (outrider:fast_loop_active{{{_OF_ENGINE}}})",
                    _ENGINES,
                ),
            ),
        ),
        Panel(
            "Changes of K in the engines",
            "Changes per second by the fast loop and their reason. They follow text, batch size and context.",
            (Query(_rate("outrider:fast_loop_changes_total", "reason"), f"{_ENGINES} {{{{reason}}}}"),),
            stacked=True,
        ),
        Panel(
            "Requests with a K limit",
            "Ratio of scheduled requests whose K limit leaves a position out. "
            "The more they are, the smaller K is for all.",
            (
                Query(
                    f"{_rate('outrider:limited_requests_total', 'position')} / on (namespace, "
                    f"outrider_dev_model) group_left () {_rate('outrider:scheduled_requests_total')}",
                    f"{_ENGINES} position {{{{position}}}}",
                ),
            ),
            unit="percentunit",
        ),
        Panel(
            "Requests by K limit",
            "Requests per second that meet each entry of requestLimits, or ask for a K limit themselves.",
            (
                Query(_rate("outrider:limit_rule_requests_total", "rule"), f"{_ENGINES} {{{{rule}}}}"),
                Query(
                    _rate("outrider:request_limits_total", "outcome"), f"{_ENGINES} asked: {{{{outcome}}}}"
                ),
            ),
        ),
        Panel(
            "Batch size",
            "Mean number of scheduled requests per engine step and pod: the load that K follows.",
            (Query(_of_model("batch_size"), _MODEL),),
        ),
        Panel(
            "Gain over the static schedule",
            "Estimated goodput of the last half hour over that of the static schedule. Above 1 tuning pays.",
            (Query(_of_model("static_gain_ratio"), _MODEL),),
        ),
        Panel(
            "Cost of exploration",
            "Estimated ratio of recent goodput spent on exploration; the limit is 1 %.",
            (Query(_of_model("probe_loss_ratio"), _MODEL),),
            unit="percentunit",
        ),
        Panel(
            "Time in probes",
            "Ratio of the time in which a pod runs a probe of another K.",
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
            "Batch bins that occurred. Calibrating ones have too few measurements.",
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
            "The conditions of the status. docs/runbooks/conditions.md has what to do for each reason.",
            (Query(_of_model("condition", "type", "status", "reason")),),
            kind="table",
            width=12,
        ),
        stat(
            "Leaders",
            "One per installation, or per shard. 0: nothing is reconciled or tuned.",
            Query("sum by (namespace) (outrider_operator_leader)", "{{namespace}}"),
        ),
        Panel(
            "Pods with the wanted schedule",
            "Pods that confirmed it, and ready pods. If they differ for long, see ActuationConverged.",
            (
                Query(_of_model("applied_replicas"), f"{_MODEL} confirmed"),
                Query(_of_model("ready_replicas"), f"{_MODEL} ready"),
            ),
            width=8,
        ),
        Panel(
            "Latency targets",
            "Percentile of each latency with a target, by the edges of its bucket, and its limit.",
            (
                Query(
                    _of_model("latency_seconds", "latency", "bound"),
                    f"{_MODEL} {{{{latency}}}} {{{{bound}}}}",
                ),
                Query(_of_model("latency_limit_seconds", "latency"), f"{_MODEL} {{{{latency}}}} limit"),
            ),
            unit="s",
        ),
        Panel(
            "Waiting requests",
            "Requests in the engines' queues. The tuner starts no probe while requests wait.",
            (
                Query(
                    f"sum by (namespace, outrider_dev_model) (vllm:num_requests_waiting{{{_OF_ENGINE}}})",
                    _ENGINES,
                ),
            ),
        ),
        Panel(
            "Work of the operator",
            "Reconciles and pushes per second by outcome, and failed ticks, which should be zero.",
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
            "99th percentile of a tick over all models, and of its queries to Prometheus.",
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
            "Ratio of engine time in the plugin's hooks.",
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
