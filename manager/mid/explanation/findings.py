"""The most important facts about a node's Mid resources, one sentence each."""

from collections.abc import Iterator, Mapping
from typing import Any

from crds.codec import to_json
from manager.calculators.base import Term
from manager.config.in_force import Origin
from manager.inputs.reading import Reader, get_objects
from manager.mid.eviction import text
from manager.mid.explanation import amounts, formula
from manager.mid.explanation.explanation import Explanation
from manager.mid.explanation.next_action import Action
from manager.mid.explanation.terms import TITLES, amount, with_numbers
from manager.node_metric import spec_for


def findings(explanation: Explanation) -> list[str]:
    """The sentences, most important first, none twice."""
    notes = [*_tried(explanation), *_config(explanation), *_manager(explanation), *explanation.result.notes]
    noted = [term for term in explanation.result.terms if term.note]
    notes += map(_of_term, sorted(noted, key=lambda term: term.name == "mid"))
    notes += _zeros(explanation)
    notes += [explanation.report.problem] if explanation.report.problem else []
    notes += _prediction(explanation)
    notes += [*_steps(explanation), *_eviction(explanation)]
    return list(dict.fromkeys(notes))


def _tried(explanation: Explanation) -> Iterator[str]:
    if explanation.what_if is None:
        return
    yield from (f"config: {warning}" for warning in explanation.what_if.warnings)
    changed = agent_changes(explanation)
    predicted = [name.removeprefix("predictPolicy.") for name in changed if name.startswith("predictPolicy.")]
    measured = [name.removeprefix("metricCollectPolicy.") for name in changed if name.startswith("metricCollect")]
    if predicted:
        texts = "Reclaimable is computed with the current policy, and changes further once the agent applies the new"
        yield f"what if: {texts} prediction policy ({', '.join(predicted)}), which this command cannot calculate"
    if measured:
        texts = "usage is measured with the current settings, and changes once the agent applies the new ones"
        yield f"what if: {texts} ({', '.join(measured)})"


def agent_changes(explanation: Explanation) -> list[str]:
    """Return the changed fields of the NodeMetric's spec."""
    if explanation.before is None:
        return []
    now, then = (_flat(to_json(spec_for(state.strategy.strategy))) for state in (explanation.before, explanation))
    return sorted(name for name in now.keys() | then.keys() if now.get(name) != then.get(name))


def _flat(data: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for name, value in data.items():
        nested = isinstance(value, Mapping) and name != "parameters"
        flat.update(_flat(value, f"{prefix}{name}.") if nested else {f"{prefix}{name}": value})
    return flat


def _config(explanation: Explanation) -> Iterator[str]:
    state = explanation.config.in_force
    yield from (f"config: {finding}" for finding in state.errors)
    if state.errors:
        fallback = "the last good one stays" if state.origin is Origin.LAST_GOOD else "the defaults are"
        yield f"config: {explanation.config.place} cannot be used: {fallback} in force until it is mended"
    view = explanation.strategy
    rest = (*state.entry_errors, *view.findings, *view.overlaps, *state.warnings)
    yield from (f"config: {finding}" for finding in rest)


def _manager(explanation: Explanation) -> Iterator[str]:
    """Return why nothing of this reaches the Node at all."""
    observed = explanation.seen
    if observed.lease is not None and not observed.lease.held:
        last = amounts.age(observed.lease.renewed_ago)
        why = f"its Lease was renewed {last} ago" if observed.lease.holder else "its Lease has no holder"
        yield f"no manager writes now ({why}), the Node keeps its amounts until one runs again"


def _steps(explanation: Explanation) -> Iterator[str]:
    """Return why the Node has another amount than the desired one, and the consequence."""
    for step in explanation.steps:
        if step.reason and explanation.what_if:
            yield f"then: {step.reason}"
        elif step.reason:
            stays = "; if this stays, read the manager's log" if step.action is Action.WRITE else ""
            yield f"{step.reason}{stays}"


def _eviction(explanation: Explanation) -> Iterator[str]:
    """Return the victims of a deficit."""
    eviction = explanation.eviction
    if eviction is None:
        return
    if not eviction.proven:
        yield f"deficit: {_unproven(explanation)}, so no Mid pod is evicted"
        if eviction.unknown_inputs:
            first = text.named(eviction.if_proven, eviction.usage) or "no pod"
            yield f"deficit: not known: {'; '.join(eviction.unknown_inputs)}. If it were proven, first to go: {first}"
        return
    if eviction.mode == "off":
        yield "deficit: midEviction.mode is off, so no Mid pod is evicted"
        return
    would = "are evicted" if eviction.mode == "on" else "would be evicted if midEviction.mode were on"
    last = f"when the deficit has lasted {eviction.after_seconds}s (midEviction.afterSeconds)"
    victims = ", ".join(text.pod(victim, eviction.usage) for victim in eviction.selection.victims)
    if victims:
        yield f"deficit: short by {text.amounts(eviction.short)}: these {would}, in this order, {last}: {victims}"
    elif not eviction.short:
        yield "deficit: Mid pods that are on their way out end it"
    yield from (f"deficit: {pod.key} stays: it {why}" for pod, why in eviction.selection.spared)
    if eviction.selection.short:
        yield f"deficit: {text.amounts(eviction.selection.short)} would still be short after that"


def _unproven(explanation: Explanation) -> str:
    if not explanation.facts.strategy.enabled:
        return "this node publishes nothing"
    return "mode is shadow" if explanation.facts.strategy.shadow else "no fresh report proves that anything is short"


def _of_term(term: Term) -> str:
    title, shown = TITLES[term.resource], amount(term.resource, term.value)
    if term.name != "mid":
        return f"{title}: {term.name} is {shown}: {term.note}"
    # "0 because ..." reads on after the number, "limited by ..." is a remark about it.
    because = term.note.removeprefix("0 ")
    return f"{title}: Mid is {shown}{' ' if because != term.note else ', '}{because}"


def _zeros(explanation: Explanation) -> Iterator[str]:
    """Return why a number is zero where the formula itself does not show it."""
    for term in explanation.result.terms:
        if term.value or term.note:
            continue
        if term.name == "mid":
            yield f"{TITLES[term.resource]}: Mid is {amount(term.resource, 0)} because {formula.decisive(term)} is 0"
        elif term.name == "reclaimable":
            yield f"{TITLES[term.resource]}: reclaimable is {amount(term.resource, 0)} {_cause(explanation, term)}"


def _cause(explanation: Explanation, term: Term) -> str:
    """Return the bound that makes Reclaimable zero, or the peak and the requests."""
    resource = term.resource
    if decisive := formula.decisive(term):
        return f"because {decisive} is 0: {with_numbers(explanation.result.term(decisive, resource))}"
    requested = amount(resource, explanation.facts.requests_above_mid[resource])
    for cls_ in get_objects(explanation.prediction, "classes"):
        peak = Reader().measured(cls_.get("peak"), "peak")[resource] if cls_.get("name") == "prod" else None
        if peak is not None:
            predicted = f"it predicts that Prod pods, without the system, reach {amount(resource, peak)}"
            return f"as the agent reports; {predicted}; pods above Mid request {requested}"
    return f"as the agent reports; pods above Mid request {requested}"


def _prediction(explanation: Explanation) -> Iterator[str]:
    """The agent's own words about a prediction that is not ready, the usual reason for a zero; and another model."""
    if explanation.ready_message and explanation.report.prediction != "ready":
        yield f"prediction: {explanation.ready_message}"
    policy = explanation.prediction.get("policy") or {}
    texts = (explanation.before or explanation).strategy.strategy
    wanted = spec_for(texts).predict_policy
    if policy.get("model") and wanted and wanted.model != policy["model"]:
        yield (
            f"prediction: the agent predicts with {policy['model']}, the strategy states {wanted.model}: it follows "
            "within moments, or its condition PredictionReady has the reason"
        )
