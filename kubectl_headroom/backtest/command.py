"""`kubectl headroom backtest`: reads usage, lets the agent's models predict it, and prints how they did."""

import argparse
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

from kubectl_headroom import output as outputs
from kubectl_headroom.backtest import engine, plot, policies, report, text
from kubectl_headroom.backtest import options as given
from kubectl_headroom.backtest.bar import Bar
from kubectl_headroom.backtest.engine import NamedPolicy, Plan
from kubectl_headroom.backtest.placement import Churn
from kubectl_headroom.backtest.report import Report
from kubectl_headroom.backtest.score import Result
from kubectl_headroom.backtest.sources import OptionError, Options, SourceUnavailableError, read
from kubectl_headroom.backtest.trace import Trace, TraceError
from kubectl_headroom.errors import FAILED, UNAVAILABLE, USAGE, CommandError

_MOST_DEFAULT_MACHINES: Final = 40
_SERIES_A_MACHINE: Final = 10
_PROMETHEUS: Final = "prometheus"
_HOUR, _DAY = 3_600, 86_400


def run(options: argparse.Namespace) -> int:
    """Evaluate policies and print the results; no cluster is contacted. The exit code is 0.

    Raises CommandError if it cannot be done; a wrong command line is refused before anything is read.
    """
    kind = next(name for name in given.SOURCES if getattr(options, name) is not None)
    _refuse(options, kind)
    wanted, choices = _wanted(options), _policies(options)
    with Bar() as bar:
        traces = _read(options, kind, wanted, bar)
        result = _evaluated(options, choices, traces, bar)
    _show(result, options.output)
    if options.plot is not None:
        title = f"{_source(result)}\n{text.placed(result)} Figures include each policy's margin."
        try:
            plot.draw(result.results, options.plot, title)
        except plot.PlotError as error:
            raise CommandError(f"--plot: {error}.") from error
    return 0


def _refuse(options: argparse.Namespace, kind: str) -> None:
    """Refuse combinations of options that cannot be used."""
    if options.plot is not None:
        try:
            plot.check(options.plot)
        except plot.PlotError as error:
            raise CommandError(f"--plot: {error}.", USAGE) from error
    if kind != _PROMETHEUS and (set_ := [name for name in given.OF_PROMETHEUS if getattr(options, name)]):
        raise CommandError(f"--{set_[0].replace('_', '-')} is for --{_PROMETHEUS}.", USAGE)
    of_churn = {"--slots": options.slots, "--come-back": options.come_back, "--come-back-on": options.come_back_on}
    for flag, value in of_churn.items():
        if value is not None and options.churn_mean_life is None:
            raise CommandError(f"{flag} describes how series come and go: give --churn-mean-life, too.", USAGE)


def _policies(options: argparse.Namespace) -> list[NamedPolicy]:
    """The policies, each once, in the order given."""
    wanted = [*options.policy, *([policies.ALL] if options.policies == () else [])]
    try:
        result = [policies.of_file(_text_of(file), file) for file in options.policy_file]
        if options.policies:
            result += policies.targets(options.policies, _horizons(options))
        if wanted or not result:
            result += policies.parse(wanted or [policies.DEFAULT])
    except policies.NamedPolicyError as error:
        raise CommandError(f"{error}.", USAGE) from error
    names = [policy.name for policy in result]
    if twice := next((name for name in names if names.count(name) > 1), None):
        raise CommandError(f"Two policies are called {twice}: give a file another name.", USAGE)
    return result


def _horizons(options: argparse.Namespace) -> tuple[int, ...]:
    """The horizons; CommandError for one that no target can have. [s]"""
    given_horizons: tuple[int, ...] | None = options.horizon
    if not options.policies:
        return given_horizons or given.HORIZONS_SECONDS
    horizons = given_horizons or given.TARGET_HORIZONS_SECONDS
    if horizons[0] < _HOUR or horizons[-1] > _DAY:
        raise CommandError("--policies target: needs a --horizon from 1h to 24h.", USAGE)
    return horizons


def _text_of(file: str) -> str:
    try:
        return Path(file).read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise CommandError(f"--policy-file: {file} is not a text: {error}", USAGE) from error
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise CommandError(f"--policy-file: {file} cannot be read: {reason}", USAGE) from error


def _read(options: argparse.Namespace, kind: str, wanted: Options, bar: Bar) -> list[Trace]:
    places = getattr(options, kind)
    try:
        return read(kind, [places] if isinstance(places, str) else list(places), wanted, bar.update)
    except SourceUnavailableError as error:
        raise CommandError(_sentence(error), UNAVAILABLE) from error
    except TraceError as error:
        raise CommandError(_sentence(error), FAILED if kind == _PROMETHEUS else USAGE) from error


def _wanted(options: argparse.Namespace) -> Options:
    queries = {}
    for pair in options.query:
        name, equals, query = pair.partition("=")
        if not equals or not query.strip():
            raise CommandError(f"--query must be NAME=PROMQL, got {pair!r}.", USAGE)
        queries[name.strip()] = query
    login = {name: getattr(options, name) for name in given.OF_PROMETHEUS if name != "query"}
    try:
        return Options(
            resources=tuple(dict.fromkeys(options.resource or ("cpu", "memory"))),
            since=options.since,
            until=options.until,
            last_seconds=options.last,
            basis=options.basis,
            pods=tuple(options.pods),
            queries=queries,
            timeout_seconds=float(options.timeout),
            **login,
        )
    except OptionError as error:
        raise CommandError(_sentence(error), USAGE) from error


def _evaluated(
    options: argparse.Namespace, choices: Sequence[NamedPolicy], traces: Sequence[Trace], bar: Bar
) -> Report:
    results: list[Result] = []
    notes: list[str] = []
    plan = _plan(options, None)
    for done, each in enumerate(traces):
        packed = options.machines or options.churn_mean_life
        trace = replace(each, lifetimes=None, machines=None) if packed else each
        machines = options.machines
        if trace.lifetimes is not None and options.seed:
            raise CommandError("--seed is for packing series on --machines N; these have places of their own.", USAGE)
        if trace.lifetimes is None and machines is None:
            machines = min(_MOST_DEFAULT_MACHINES, max(1, trace.series // _SERIES_A_MACHINE))
            many = "1 machine" if machines == 1 else f"{machines} machines"
            notes.append(f"The trace does not record where its series ran: they are packed on {many} (--machines).")
        plan = _plan(options, machines)

        def shown(fraction: float, text: str, done: int = done) -> None:
            bar.update((done + fraction) / len(traces), text)

        try:
            results += engine.run(trace, choices, plan, shown)
        except TraceError as error:
            raise CommandError(_sentence(error), USAGE) from error
        except engine.ModelError as error:
            raise CommandError(_sentence(error)) from error
    notes += [note for trace in traces for note in report.always_cold(choices, trace, plan)]
    return Report(tuple(choices), tuple(traces), plan, tuple(results), tuple(dict.fromkeys(notes)))


def _plan(options: argparse.Namespace, machines: int | None) -> Plan:
    churn = None
    if options.churn_mean_life is not None:
        slots = options.slots or given.SLOTS
        back = options.come_back or 0.0
        churn = Churn(float(options.churn_mean_life), slots, back, comes_back_on_any=options.come_back_on == given.ANY)
    return Plan(
        machines=machines,
        seeds=() if machines is None else tuple(dict.fromkeys(options.seed or given.SEEDS)),
        horizons_seconds=_horizons(options),
        warm_up_seconds=options.warm_up,
        churn=churn,
        workload_history=options.workload_history,
    )


def _show(found: Report, form: str) -> None:
    if outputs.is_for_people(form):
        text.show(found, wide=form == outputs.WIDE)
    else:
        outputs.show(report.document(found), form)


def _source(found: Report) -> str:
    sources = list(dict.fromkeys(trace.source for trace in found.traces))
    return f"{sources[0]} and {len(sources) - 1} more" if len(sources) > 1 else sources[0]


def _sentence(error: Exception) -> str:
    text = str(error)
    return text if text.endswith((".", "?", "!")) else f"{text}."
