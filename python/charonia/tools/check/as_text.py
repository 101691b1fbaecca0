"""The report for people: by model, each finding with its place, its line of the file, and what to do."""

import textwrap
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from charonia.config.findings import Finding
from charonia.config.model_tensor import shown
from charonia.core.text import printable
from charonia.tools.check.graph import Flow, Graph, GraphStep
from charonia.tools.check.report import Load, ModelFinding, Report

_RED, _YELLOW, _BOLD, _DIM = "31;1", "33;1", "1", "2"


@dataclass(frozen=True, slots=True)
class Style:
    """How wide lines may be, and whether there are colours."""

    width: int = 100
    color: bool = False

    def paint(self, text: str, code: str) -> str:
        return f"\x1b[{code}m{text}\x1b[0m" if self.color else text


def as_text(report: Report, style: Style) -> str:
    """All findings and the graphs of ensembles, then one line with the counts. A model without any is only counted."""
    lines: list[str] = []
    told = {each.model for each in report.findings} | {each.model for each in report.loads} | set(report.graphs)
    for name in sorted(told):
        lines += _model(name, report, style)
        lines.append("")
    lines.append(_summary(report, style))
    return "\n".join(lines)


def _model(name: str, report: Report, style: Style) -> Iterator[str]:
    yield style.paint(printable(name) or "the repository", _BOLD)
    if name in report.graphs:
        yield from _graph(report.graphs[name], style)
    for load in report.loads:
        if load.model == name and load.is_loaded:
            yield f"  {_loaded(load)}"
    for each in report.of(name):
        yield from _finding(each, style)


def _graph(graph: Graph, style: Style) -> Iterator[str]:
    """A tensor has its datatype and shape where it comes from: among the inputs, or behind the step that writes it."""
    yield from _wrapped(_flows(graph.inputs, graph), style.width, "  inputs:  ")
    for number, stage in enumerate(graph.stages, 1):
        side_by_side = len(stage) > 1
        if side_by_side:
            yield f"  {number}. side by side:"
        for step in stage:
            yield from _wrapped(_step(step, graph), style.width, "     - " if side_by_side else f"  {number}. ")
    yield from _wrapped(", ".join(graph.outputs), style.width, "  outputs: ")


def _step(step: GraphStep, graph: Graph) -> str:
    version = f" version {step.version}" if step.version is not None else ""
    repeated = "; what follows runs for each of its responses" if step.decoupled else ""
    reads = ", ".join(dict.fromkeys(step.inputs.values()))
    writes = _flows(step.outputs.values(), graph)
    return f"{step.model}{version} (step {step.number}): {reads} → {writes}{repeated}"


def _flows(names: Iterable[str], graph: Graph) -> str:
    return ", ".join(_flow(graph.flows[name]) for name in names)


def _flow(flow: Flow) -> str:
    return f"{flow.name} {flow.datatype or '?'} {shown(flow.shape) if flow.shape is not None else '[?]'}"


def _loaded(load: Load) -> str:
    runs = f", with {_count(load.warmup_samples, 'run')} of warm-up" if load.warmup_samples else ""
    return f"version {load.version} loaded in {load.seconds:.2f} s{runs}"


def _finding(each: ModelFinding, style: Style) -> Iterator[str]:
    finding = each.finding
    label = f"  {finding.severity}: "
    first, *others = _wrapped(finding.message, style.width, label)
    color = _RED if finding.is_error else _YELLOW
    yield style.paint(label.rstrip(), color) + first[len(label) - 1 :]
    yield from others
    yield from _place(finding, style)
    if finding.remedy:
        yield from _wrapped(finding.remedy, style.width, "    fix: ")
    for line in finding.snippet.splitlines():
        yield f"     {line}"


def _place(finding: Finding, style: Style) -> Iterator[str]:
    place, path = finding.place, finding.path
    if place is None:
        return
    path = f" ({printable(path)})" if path and place.by_path else ""
    yield style.paint(f"    at {printable(str(place))}{path}", _DIM)
    for line in place.shown().splitlines():
        yield f"    {line}"


def _wrapped(text: str, width: int, label: str) -> list[str]:
    """Lines of at most `width`, the first after `label`, the others below its text. Paths and names stay whole."""
    indent = " " * len(label)
    lines: list[str] = []
    for part in text.splitlines():
        lines += textwrap.wrap(
            printable(part),
            width,
            initial_indent=indent if lines else label,
            subsequent_indent=indent,
            break_long_words=False,
            break_on_hyphens=False,
        )
    return lines or [label]


def _summary(report: Report, style: Style) -> str:
    errors, warnings = report.count(errors=True), report.count(errors=False)
    fine = sum(not report.of(name) for name in report.models)
    counts = ", ".join(_counted(((errors, "error"), (warnings, "warning"))))
    text = f"{_count(len(report.models), 'model')} checked: {counts or 'nothing to say'}"
    if counts and fine:
        text += f"; nothing to say of {fine} of them"
    if report.loads:
        text += f"; {_count(sum(each.is_loaded for each in report.loads), 'version')} loaded"
    return style.paint(text, _RED if errors else _YELLOW if warnings else _BOLD)


def _counted(counts: Iterable[tuple[int, str]]) -> Iterator[str]:
    return (_count(number, noun) for number, noun in counts if number)


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"
