"""Who may import whom: read the table before the code."""

import pytest

from tests.architecture.sources import PACKAGES, ROOT, imported, modules

# The longest prefix of a module's name decides. A name allows itself and everything below it.
ALLOWED: dict[str, tuple[str, ...]] = {
    "crds": ("crds",),
    "kubeapi": ("kubeapi", "service.printable"),
    "service": ("service",),
    "devcluster": ("devcluster",),
    "dashboards": ("dashboards",),
    "release": ("release",),
    "demo": ("demo", "devcluster"),
    # The agent's own code, stepped through recorded usage.
    "backtest": (
        "backtest",
        "crds",
        "service.printable",
        "agent.identities",
        "agent.numerics",
        "agent.pods",
        "agent.policy",
        "agent.predictors",
        "agent.roster",
        "agent.samples",
        "agent.store",
    ),
    "cli": (
        "cli",
        "backtest",
        "crds",
        "kubeapi",
        "agent.numerics",
        "agent.predictors",
        "manager.config",
        "manager.calculators",
        "manager.eviction",
        "manager.exclusion",
        "manager.explain",
        "manager.facts",
        "manager.node_metric",
        "manager.patches",
        "scheduler_plugins.framework",
        "scheduler_plugins.plugins",
        "scheduler_plugins.profile",
        "scheduler_plugins.quota",
        "scheduler_plugins.reclaim",
        "scheduler_plugins.snapshot",
        "scheduler_plugins.extender.service",
        "service.printable",
        "service.words",
    ),
    # agent: collect -> store -> predict -> report
    "agent": ("agent", "crds", "kubeapi", "service"),
    "agent.samples": (),
    "agent.numerics": ("agent.numerics",),
    "agent.host": ("agent.host",),
    "agent.collectors": ("agent.collectors", "agent.samples", "agent.host", "agent.pods", "crds"),
    "agent.flags": ("agent.flags", "agent.kinds", "service.words"),
    "agent.kinds": ("crds.duration",),
    "agent.store": ("agent.store", "agent.samples", "agent.numerics"),
    "agent.store.settings": ("agent.flags", "agent.kinds"),
    "agent.derived": ("agent.samples",),
    "agent.pods": ("crds", "agent.host"),
    "agent.predictors": ("agent.predictors", "agent.numerics", "crds.predict_policy", "crds.codec"),
    "agent.telemetry": ("agent.telemetry",),
    "agent.serving": ("agent.serving", "service"),
    # manager: config -> calculate -> patch
    "manager": ("manager", "crds", "kubeapi", "service"),
    "manager.facts": ("manager.facts", "crds"),
    "manager.webhook": (
        "manager.webhook",
        "service.http",
        "service.printable",
        "manager.config",
        "manager.listening",
        "manager.settings",
        "manager.telemetry",
        "kubeapi",
        "crds",
    ),
    "manager.webhook.certificates": ("manager.webhook.certificates",),
    "manager.webhook.schedule": ("manager.webhook.schedule", "manager.webhook.certificates"),
    "manager.webhook.admission": ("service.printable", "manager.webhook.admission", "manager.config", "crds"),
    # One explanation, two views: the CLI and the web page.
    "manager.explain": (
        "manager.explain",
        "manager.calculators",
        "manager.config",
        "manager.eviction",
        "manager.exclusion",
        "manager.facts",
        "manager.node_metric",
        "manager.patches",
        "crds",
    ),
    # The page only reads: what it may import holds nothing that writes but the session, which it asks for one object.
    "manager.ui": (
        "manager.ui",
        "manager.calculators",
        "manager.cluster",
        "manager.config",
        "manager.context",
        "manager.exclusion",
        "manager.explain",
        "manager.facts",
        "manager.listening",
        "manager.node_metric",
        "manager.patches",
        "manager.reactions.conditions",
        "manager.reactions.shadow",
        "service.http",
        "service.token_bucket",
        "kubeapi",
        "crds",
    ),
    "manager.ui.history": (),
    "manager.ui.html": ("service.printable",),
    "manager.ui.words": (),
    "manager.ui.plot": ("manager.ui.history", "manager.ui.html", "manager.ui.words"),
    "manager.config": ("manager.config", "manager.facts", "crds"),
    "manager.calculators": ("manager.calculators", "manager.facts", "crds"),
    "manager.eviction": ("manager.eviction", "manager.calculators", "manager.facts", "crds"),
    "manager.patches": ("manager.facts", "manager.calculators", "crds"),
    # scheduler_plugins: snapshot -> filter -> score -> respond
    "scheduler_plugins": ("scheduler_plugins", "crds", "kubeapi", "service"),
    "scheduler_plugins.numerics": ("scheduler_plugins.numerics",),
    "scheduler_plugins.snapshot": ("scheduler_plugins.snapshot", "service.memo", "service.garbage", "crds", "kubeapi"),
    "scheduler_plugins.framework": (
        "scheduler_plugins.framework",
        "scheduler_plugins.snapshot",
        "scheduler_plugins.providers.spec",
    ),
    "scheduler_plugins.providers": (
        "scheduler_plugins.providers",
        "scheduler_plugins.snapshot",
        "scheduler_plugins.telemetry",
        "kubeapi",
        "crds",
    ),
    "scheduler_plugins.providers.spec": ("scheduler_plugins.providers.spec",),
    "scheduler_plugins.providers.registry": ("scheduler_plugins.providers.registry",),
    "scheduler_plugins.watcher": (
        "scheduler_plugins.watcher",
        "scheduler_plugins.snapshot",
        "service.http",
        "crds",
    ),
    "scheduler_plugins.quota": ("scheduler_plugins.quota", "scheduler_plugins.snapshot", "service.memo", "crds"),
    "scheduler_plugins.quota_status": (
        "scheduler_plugins.quota_status",
        "scheduler_plugins.quota",
        "scheduler_plugins.snapshot",
        "service.clocks",
        "service.token_bucket",
        "kubeapi",
        "crds",
    ),
    "scheduler_plugins.leader": ("scheduler_plugins.snapshot", "service.elapsed", "kubeapi"),
    "scheduler_plugins.reclaim": (
        "scheduler_plugins.reclaim",
        "scheduler_plugins.leader",
        "scheduler_plugins.quota",
        "scheduler_plugins.framework",
        "scheduler_plugins.snapshot",
        "service.elapsed",
        "service.clocks",
        "service.token_bucket",
        "kubeapi",
        "crds",
    ),
    # Who has to leave is decided by what is known, without asking anybody.
    "scheduler_plugins.reclaim.selection": (
        "scheduler_plugins.reclaim.selection",
        "scheduler_plugins.reclaim.fitting",
        "scheduler_plugins.quota",
        "scheduler_plugins.framework",
        "scheduler_plugins.snapshot",
        "crds",
    ),
    "scheduler_plugins.waking": (
        "scheduler_plugins.waking",
        "scheduler_plugins.framework",
        "scheduler_plugins.snapshot",
        "service.clocks",
        "service.token_bucket",
        "kubeapi",
        "crds",
    ),
    "scheduler_plugins.plugins": (
        "scheduler_plugins.plugins",
        "scheduler_plugins.framework",
        "scheduler_plugins.snapshot",
        "scheduler_plugins.numerics",
        "scheduler_plugins.quota",
        "scheduler_plugins.reclaim",
        "scheduler_plugins.providers.spec",
        "scheduler_plugins.providers.registry",
        "service.memo",
        "crds",
    ),
    "scheduler_plugins.profile": (
        "scheduler_plugins.profile",
        "scheduler_plugins.arguments",
        "scheduler_plugins.extender.service",
        "scheduler_plugins.framework",
        "scheduler_plugins.plugins",
        "scheduler_plugins.snapshot",
        "scheduler_plugins.waking.settings",
    ),
    "scheduler_plugins.extender": (
        "scheduler_plugins.extender",
        "scheduler_plugins.framework",
        "scheduler_plugins.snapshot",
        "service.http",
        "service.memo",
    ),
}

# Third parties that a place must not import: the reason stands behind each.
OWN_SERVERS = dict.fromkeys(
    ("aiohttp.web", "http.server", "socketserver", "wsgiref"), "has no bounds: whatever listens is service.http"
)
FORBIDDEN: dict[str, dict[str, str]] = {
    "agent": {
        **OWN_SERVERS,
        "scipy": "costs 50 MiB and more of a 90 MiB budget",
        "kopf": "belongs to the manager",
        "subprocess": "the agent reads files, it starts nothing",
    },
    "backtest": {"scipy": "the plugin and the manager's image have no use for it", "subprocess": "reads files alone"},
    "crds": {"numpy": "the API is plain data", "kubernetes": "the API does no I/O", "aiohttp": "the API does no I/O"},
    "kubeapi": {"kopf": "belongs to the manager"},
    "service": {**OWN_SERVERS, "kopf": "belongs to the manager", "numpy": "has no use for it"},
    "cli": {"kopf": "belongs to the manager", "subprocess": "reads live objects only"},
    "manager": {**OWN_SERVERS, "subprocess": "starts nothing", "scipy": "has no use for it"},
    "scheduler_plugins": {
        **OWN_SERVERS,
        "kopf": "belongs to the manager",
        "subprocess": "starts nothing",
        "scipy.stats": "costs 98 MiB and two seconds; scipy.special has what we need",
    },
}
KOPF_MAY_BE_IMPORTED_BY = ("manager.handlers", "manager.__main__", "manager.operator")


def _within(name: str, prefix: str) -> bool:
    return name == prefix or name.startswith(prefix + ".")


def _longest(name: str) -> str:
    return max((prefix for prefix in ALLOWED if _within(name, prefix)), key=len)


def _packages_of(name: str) -> bool:
    return name.split(".", maxsplit=1)[0] in PACKAGES


@pytest.mark.parametrize("package", PACKAGES)
def test_imports_follow_the_table(package: str) -> None:
    """A module imports only what the table lets it."""
    wrong = [
        f"{path.relative_to(ROOT)}:{line} imports {name}"
        for module, path in modules(package)
        if not module.endswith("__main__") and module != "agent.pipeline"
        for name, line in imported(path, module=module)
        if _packages_of(name)
        and not any(_within(name, allowed) or _within(allowed, name) for allowed in ALLOWED[_longest(module)])
    ]
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("package", PACKAGES)
def test_services_stay_apart(package: str) -> None:
    """Not even a composition root imports another service, nor does anything import tests or the dev cluster."""
    others = {"agent", "manager", "scheduler_plugins", "tests", "bench", "demo", "devcluster"} - {package}
    if package == "demo":
        others.discard("devcluster")
    if package == "cli":
        others -= {"agent", "manager", "scheduler_plugins"}
    if package == "backtest":
        others.discard("agent")
    wrong = [
        f"{path.relative_to(ROOT)}:{line} imports {name}"
        for module, path in modules(package)
        for name, line in imported(path, module=module)
        if name.split(".")[0] in others
    ]
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("package", FORBIDDEN)
def test_forbidden_libraries_stay_out(package: str) -> None:
    """A library that a package must not carry is not imported anywhere in it."""
    wrong = [
        f"{path.relative_to(ROOT)}:{line} imports {name}: {reason}"
        for module, path in modules(package)
        for name, line in imported(path, module=module)
        for library, reason in FORBIDDEN[package].items()
        if _within(name, library)
    ]
    assert not wrong, "\n".join(wrong)


def test_kopf_stays_at_the_edge() -> None:
    """Only handlers and the composition root know kopf."""
    wrong = [
        f"{path.relative_to(ROOT)}:{line}"
        for module, path in modules("manager")
        for name, line in imported(path, module=module)
        if _within(name, "kopf") and not any(_within(module, allowed) for allowed in KOPF_MAY_BE_IMPORTED_BY)
    ]
    assert not wrong, "\n".join(wrong)
