"""The report for machines.

{
  "schema": 1,                       raised when a member changes its meaning; new ones may come without that
  "models": [{
    "name", "versions",              the versions that would be served
    "graph":                         of an ensemble, else null
      {"inputs", "outputs",          names of tensors
       "stages": [[{                 in the order in which they run; the steps of one stage run side by side
         "step",                     its place in the configuration, from 1
         "model", "version",         version is null for the one that the model's policy prefers
         "decoupled",
         "inputs", "outputs"}]],     by the model's name of it, the ensemble's tensor
       "tensors": [{"name", "datatype", "shape"}]}     as written; null where nobody says
  }],
  "findings": [{
    "model":    null for the repository itself
    "version":  null when it is of no single version
    "severity": "error" | "warning"
    "file", "line", "column":        null where not known; line and column count from 1
    "field":    path of the field of the configuration, as input[0].dims; null for what is none
    "message", "remedy":             remedy is null when the message says it already
    "snippet":                       lines of a configuration that would be right, or null
  }],
  "loads": [{"model", "version", "loaded", "seconds", "warmup_samples"}],   with --load
  "summary": {"models", "errors", "warnings"}
}
"""

import json
from textwrap import dedent
from typing import Any

from charonia.tools.check.graph import Graph, GraphStep
from charonia.tools.check.report import Load, ModelFinding, Report

SCHEMA = 1


def as_json(report: Report) -> str:
    """One JSON document."""
    document = {
        "schema": SCHEMA,
        "models": [
            {"name": name, "versions": list(versions), "graph": _graph(report.graphs.get(name))}
            for name, versions in sorted(report.models.items())
        ],
        "findings": [_finding(each) for each in report.findings],
        "loads": [_load(each) for each in report.loads],
        "summary": {
            "models": len(report.models),
            "errors": report.count(errors=True),
            "warnings": report.count(errors=False),
        },
    }
    return json.dumps(document, indent=2, ensure_ascii=False)


def _graph(graph: Graph | None) -> dict[str, Any] | None:
    if graph is None:
        return None
    return {
        "inputs": list(graph.inputs),
        "outputs": list(graph.outputs),
        "stages": [[_step(step) for step in stage] for stage in graph.stages],
        "tensors": [
            {"name": flow.name, "datatype": flow.datatype or None, "shape": flow.shape and list(flow.shape)}
            for flow in graph.flows.values()
        ],
    }


def _step(step: GraphStep) -> dict[str, Any]:
    return {
        "step": step.number,
        "model": step.model,
        "version": step.version,
        "decoupled": step.decoupled,
        "inputs": dict(step.inputs),
        "outputs": dict(step.outputs),
    }


def _finding(each: ModelFinding) -> dict[str, Any]:
    finding, place = each.finding, each.finding.place
    return {
        "model": each.model or None,
        "version": each.version,
        "severity": str(finding.severity),
        "file": place.file if place is not None else None,
        "line": place.line if place is not None else None,
        "column": place.column if place is not None else None,
        "field": finding.path or None,
        "message": finding.message,
        "remedy": finding.remedy or None,
        "snippet": dedent(finding.snippet) or None,
    }


def _load(each: Load) -> dict[str, Any]:
    return {
        "model": each.model,
        "version": each.version,
        "loaded": each.is_loaded,
        "seconds": round(each.seconds, 3),
        "warmup_samples": each.warmup_samples,
    }
