"""What a person should know first about a node's Mid resources, one sentence each."""

from collections.abc import Iterator

from cli.explain_terms import TITLES, amount
from cli.explanation import Explanation
from manager.calculators.base import Term
from manager.config.in_force import Origin
from manager.facts import Resource


def findings(explanation: Explanation) -> list[str]:
    """The sentences, most important first, none twice."""
    notes = [*_config(explanation), *explanation.result.notes]
    notes += [_of_term(term) for term in explanation.result.terms if term.note and term.name != "mid"]
    notes += [_of_mid(term) for term in explanation.result.terms if term.note and term.name == "mid"]
    notes += [explanation.report.problem] if explanation.report.problem else []
    notes += _prediction(explanation)
    notes += _pending(explanation)
    return list(dict.fromkeys(notes))


def _config(explanation: Explanation) -> Iterator[str]:
    state = explanation.config.in_force
    yield from (f"config: {finding}" for finding in state.errors)
    if state.errors:
        kept = "the last good one stays" if state.origin is Origin.LAST_GOOD else "the defaults are"
        yield f"config: ConfigMap {explanation.config.place} cannot be used: {kept} in force until it is mended"
    yield from (f"config: {finding}" for finding in state.entry_errors)
    yield from (f"config: {finding}" for finding in explanation.strategy.findings)
    yield from (f"config: {finding}" for finding in state.warnings)


def _of_term(term: Term) -> str:
    return f"{TITLES[term.resource]}: {term.name} is {amount(term.resource, term.value)}: {term.note}"


def _of_mid(term: Term) -> str:
    shown = amount(term.resource, term.value)
    # "0 because ..." reads on after the number, "limited by ..." is a remark about it.
    because = term.note.removeprefix("0 ")
    return f"{TITLES[term.resource]}: Mid is {shown}{' ' if because != term.note else ', '}{because}"


def _prediction(explanation: Explanation) -> Iterator[str]:
    """The agent's own words about a prediction that is not ready: the usual reason for a zero."""
    if explanation.ready_message and explanation.report.prediction != "ready":
        yield f"prediction: {explanation.ready_message}"


def _pending(explanation: Explanation) -> Iterator[str]:
    """Why the Node offers something else than the formula says."""
    desired, published, strategy = explanation.result.desired, explanation.published, explanation.facts.strategy
    for resource in Resource:
        wanted, offered = (desired[resource] if desired else None), published[resource]
        if wanted == offered:
            continue
        if wanted is not None and offered is not None and wanted > offered:
            yield (
                f"{TITLES[resource]}: the Node offers less than was calculated: an increase is written when it has "
                f"held {strategy.increase_hold_seconds}s, a small one after {strategy.update_seconds}s"
            )
        else:
            yield (
                f"{TITLES[resource]}: the Node does not offer what was calculated: the manager writes it within "
                "seconds, a small difference later; if this stays, read the manager's log"
            )
