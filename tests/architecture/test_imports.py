"""Rules of imports: read the table before the code."""

from pathlib import Path

import pytest

from tests.architecture.sources import PACKAGES, ROOT, imported, modules

API = ("agent.api", "manager.api", "scheduler_plugins.api")
"""The modules of the services that kubectl_headroom may import. No module behind them does I/O."""
API_LINES = 150
IO = ("aiohttp", "asyncio", "kubernetes", "socket", "sqlite3", "subprocess", "threading", "headroom.kube")
IO_OF_OBJECTS = ("headroom.kube.paths", "headroom.kube.time_slices", "headroom.kube.unreadable_objects")
"""Modules of the client without I/O: names of paths, slices of work, and names of bad objects."""
DO_IO = ("scheduler_plugins.snapshot.source", "scheduler_plugins.snapshot.watch")
"""Modules behind the API that do I/O: the list of watched kinds, and its watches."""

# The longest prefix of a module's name decides. A name allows itself and everything below it.
ALLOWED: dict[str, tuple[str, ...]] = {
    "crds": ("crds",),
    "headroom.kube": ("headroom.kube", "headroom.runtime"),
    "headroom.runtime": ("headroom.runtime",),
    "tools.devcluster": ("tools.devcluster",),
    "tools.release": ("tools.devcluster", "tools.release"),
    "headroom.cluster": ("headroom.cluster", "crds"),
    "tools": ("tools", "headroom", "kubectl_headroom", "agent", "manager", "scheduler_plugins", "crds", "tests"),
    "tools.demo": ("tools.demo", "tools.devcluster"),
    "kubectl_headroom": (
        "kubectl_headroom",
        "headroom.cluster",
        "headroom.kube",
        "headroom.runtime.options",
        "headroom.runtime.removed",
        "headroom.runtime.sanitize",
        "headroom.runtime.text",
        "crds",
        *API,
    ),
    # agent: collect -> store -> predict -> report
    "agent": ("agent", "crds", "headroom.cluster", "headroom.kube", "headroom.runtime"),
    "agent.samples": (),
    "agent.numerics": ("agent.numerics",),
    "agent.host": ("agent.host", "headroom.cluster.cpu_list"),
    "agent.collectors": ("agent.collectors", "agent.samples", "agent.host", "agent.pods", "crds", "headroom.cluster"),
    "headroom.runtime.options": (
        "headroom.runtime.options",
        "headroom.runtime.option_types",
        "headroom.runtime.removed",
        "headroom.runtime.text",
    ),
    "headroom.runtime.option_types": ("crds.duration",),
    "agent.tsdb": ("agent.tsdb", "agent.samples", "agent.numerics"),
    "agent.tsdb.settings": ("headroom.runtime.options", "headroom.runtime.option_types"),
    "agent.derived": ("agent.samples",),
    "agent.pods": ("crds", "headroom.cluster", "agent.host"),
    "agent.predictors": ("agent.predictors", "agent.numerics", "crds.predict_policy", "crds.codec"),
    "agent.metrics": ("agent.metrics",),
    # manager: config -> calculate -> patch
    "manager": ("manager", "crds", "headroom.cluster", "headroom.kube", "headroom.runtime"),
    "manager.inputs": ("manager.inputs", "crds", "headroom.cluster"),
    "manager.webhook": (
        "manager.webhook",
        "headroom.runtime.http",
        "headroom.runtime.sanitize",
        "manager.config",
        "manager.http",
        "manager.settings",
        "manager.metrics",
        "manager.profiles",
        "headroom.kube",
        "crds",
        "headroom.cluster",
    ),
    "manager.profiles": (
        "manager.profiles",
        "manager.config.findings",
        "manager.config.selector",
        "crds",
        "headroom.cluster",
    ),
    "manager.webhook.admission": (
        "headroom.runtime.sanitize",
        "manager.webhook.admission",
        "manager.config",
        "crds",
        "headroom.cluster",
    ),
    # One explanation, two views: the CLI and the web page.
    "manager.mid.explanation": (
        "manager.mid.explanation",
        "manager.calculators",
        "manager.config",
        "manager.hot_nodes",
        "manager.mid.eviction",
        "manager.mid.node_filter",
        "manager.inputs",
        "manager.node_metric",
        "manager.mid.publish",
        "crds",
        "headroom.cluster",
    ),
    # The page only reads: its imports write nothing, but for the session, which reads one object.
    "manager.web": (
        "manager.web",
        "manager.calculators",
        "manager.cluster",
        "manager.config",
        "manager.context",
        "manager.mid.node_filter",
        "manager.mid.pod_limits",
        "manager.mid.explanation",
        "manager.inputs",
        "manager.http",
        "manager.node_metric",
        "manager.mid.publish",
        "manager.reconcile.steps.conditions",
        "manager.reconcile.steps.shadow",
        "headroom.runtime.http",
        "headroom.runtime.token_bucket",
        "headroom.kube",
        "crds",
        "headroom.cluster",
    ),
    "manager.web.history": (),
    "manager.config": ("manager.config", "manager.inputs", "crds", "headroom.cluster"),
    "manager.calculators": ("manager.calculators", "manager.inputs", "crds", "headroom.cluster"),
    "manager.mid.eviction": (
        "manager.mid.eviction",
        "headroom.runtime.backoff",
        "manager.calculators",
        "manager.inputs",
        "crds",
        "headroom.cluster",
    ),
    "manager.hot_nodes": ("manager.hot_nodes", "manager.inputs", "manager.mid.eviction", "crds", "headroom.kube"),
    "manager.mid.publish": ("manager.inputs", "manager.calculators", "crds", "headroom.cluster"),
    # scheduler_plugins: snapshot -> filter -> score -> respond
    "scheduler_plugins": ("scheduler_plugins", "crds", "headroom.cluster", "headroom.kube", "headroom.runtime"),
    "scheduler_plugins.numerics": ("scheduler_plugins.numerics",),
    "scheduler_plugins.steps": ("scheduler_plugins.steps",),
    "scheduler_plugins.snapshot": (
        "scheduler_plugins.snapshot",
        "scheduler_plugins.steps",
        "headroom.runtime.bounded_cache",
        "headroom.runtime.garbage_collection",
        "crds",
        "headroom.cluster",
        "headroom.kube",
    ),
    "scheduler_plugins.framework": (
        "scheduler_plugins.framework",
        "scheduler_plugins.snapshot",
        "scheduler_plugins.steps",
        "scheduler_plugins.providers.spec",
    ),
    "scheduler_plugins.providers": (
        "scheduler_plugins.providers",
        "scheduler_plugins.snapshot",
        "scheduler_plugins.metrics",
        "headroom.runtime.backoff",
        "headroom.kube",
        "crds",
        "headroom.cluster",
    ),
    "scheduler_plugins.providers.spec": ("scheduler_plugins.providers.spec",),
    "scheduler_plugins.quota": (
        "scheduler_plugins.quota",
        "scheduler_plugins.snapshot",
        "headroom.runtime.bounded_cache",
        "crds",
        "headroom.cluster",
    ),
    "scheduler_plugins.quota.status": (
        "scheduler_plugins.quota.status",
        "scheduler_plugins.quota",
        "scheduler_plugins.snapshot",
        "headroom.runtime.backoff",
        "headroom.runtime.clocks",
        "headroom.runtime.token_bucket",
        "headroom.kube",
        "crds",
        "headroom.cluster",
    ),
    "scheduler_plugins.preemption": (
        "scheduler_plugins.preemption",
        "scheduler_plugins.quota",
        "scheduler_plugins.framework",
        "scheduler_plugins.snapshot",
        "headroom.runtime.backoff",
        "headroom.runtime.clocks",
        "headroom.runtime.token_bucket",
        "headroom.kube",
        "crds",
        "headroom.cluster",
    ),
    # Victims are chosen from cached state, without I/O.
    "scheduler_plugins.preemption.selection": (
        "scheduler_plugins.preemption.selection",
        "scheduler_plugins.preemption.fit",
        "scheduler_plugins.quota",
        "scheduler_plugins.framework",
        "scheduler_plugins.snapshot",
        "crds",
        "headroom.cluster",
    ),
    "scheduler_plugins.requeue": (
        "scheduler_plugins.requeue",
        "scheduler_plugins.framework",
        "scheduler_plugins.snapshot",
        "headroom.runtime.backoff",
        "headroom.runtime.clocks",
        "headroom.runtime.token_bucket",
        "headroom.kube",
        "crds",
        "headroom.cluster",
    ),
    "scheduler_plugins.plugins": (
        "scheduler_plugins.plugins",
        "scheduler_plugins.framework",
        "scheduler_plugins.snapshot",
        "scheduler_plugins.steps",
        "scheduler_plugins.numerics",
        "scheduler_plugins.quota",
        "scheduler_plugins.preemption",
        "scheduler_plugins.providers.spec",
        "headroom.runtime.bounded_cache",
        "crds",
        "headroom.cluster",
    ),
    "scheduler_plugins.profile": (
        "scheduler_plugins.profile",
        "scheduler_plugins.arguments",
        "scheduler_plugins.extender.service",
        "scheduler_plugins.framework",
        "scheduler_plugins.plugins",
        "scheduler_plugins.snapshot",
        "scheduler_plugins.requeue.settings",
        "headroom.runtime.removed",
    ),
    "scheduler_plugins.extender": (
        "scheduler_plugins.extender",
        "scheduler_plugins.metrics",
        "scheduler_plugins.framework",
        "scheduler_plugins.snapshot",
        "scheduler_plugins.steps",
        "headroom.cluster.typed_pod",
        "headroom.runtime.http",
        "headroom.runtime.removed",
    ),
    "scheduler_plugins.extender.watcher": (
        "scheduler_plugins.snapshot",
        "scheduler_plugins.providers",
        "headroom.runtime.http",
        "crds",
    ),
}

# Third parties that a place must not import: each has its reason.
OWN_SERVERS = dict.fromkeys(
    ("aiohttp.web", "http.server", "socketserver", "wsgiref"),
    "has no bounds: whatever listens is headroom.runtime.http",
)
FORBIDDEN: dict[str, dict[str, str]] = {
    "agent": {
        **OWN_SERVERS,
        "scipy": "costs 50 MiB and more of a 90 MiB budget",
        "kopf": "belongs to the manager",
        "subprocess": "the agent reads files, it starts nothing",
    },
    "kubectl_headroom.backtest": {
        "scipy": "the plugin and the manager's image have no use for it",
        "subprocess": "reads files alone",
    },
    "crds": {"numpy": "the API is plain data", "kubernetes": "the API does no I/O", "aiohttp": "the API does no I/O"},
    "headroom.kube": {"kopf": "belongs to the manager"},
    "headroom.runtime": {**OWN_SERVERS, "kopf": "belongs to the manager", "numpy": "has no use for it"},
    "kubectl_headroom": {"kopf": "belongs to the manager", "subprocess": "reads live objects only"},
    "manager": {**OWN_SERVERS, "subprocess": "starts nothing", "scipy": "has no use for it"},
    "scheduler_plugins": {
        **OWN_SERVERS,
        "kopf": "belongs to the manager",
        "subprocess": "starts nothing",
        "scipy.stats": "costs 98 MiB and two seconds; scipy.special is enough",
    },
}
DRIVES_SERVICES = ("tools.bench", "tools.soak")
"""Developers' tools that run the services' own code; they take fixtures of the tests, too."""
KOPF_MAY_BE_IMPORTED_BY = ("manager.handlers", "manager.__main__", "manager.operator")


def _within(name: str, prefix: str) -> bool:
    return name == prefix or name.startswith(prefix + ".")


def _longest(name: str) -> str:
    return max((prefix for prefix in ALLOWED if _within(name, prefix)), key=len)


def _packages_of(name: str) -> bool:
    return name.split(".", maxsplit=1)[0] in PACKAGES


@pytest.mark.parametrize("package", PACKAGES)
def test_imports_follow_the_table(package: str) -> None:
    """A module imports only modules that the table allows."""
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
    """No service imports another, also where it is wired; shipped code imports no tests or tools."""
    services = {"agent", "manager", "scheduler_plugins"}
    forbidden = {"tests", "tools"} if package == "kubectl_headroom" else services | {"tests", "tools"}
    forbidden -= {package}
    wrong = [
        f"{path.relative_to(ROOT)}:{line} imports {name}"
        for module, path in modules(package)
        if not module.startswith(DRIVES_SERVICES)
        for name, line in imported(path, module=module)
        if name.split(".")[0] in forbidden
    ]
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("name", [*ALLOWED, *API, *DO_IO])
def test_table_names_all_parts(name: str) -> None:
    """Each name of the tables is a module or a package: a rule about nothing holds whatever is written."""
    path = ROOT / name.replace(".", "/")
    assert path.is_dir() or path.with_suffix(".py").is_file()


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


@pytest.mark.parametrize("name", API)
def test_api_does_no_io(name: str) -> None:
    """A module that kubectl_headroom imports through an API opens no file, connection or thread."""
    wrong = [
        f"{path.relative_to(ROOT)}:{line} imports {dependency}"
        for module, path in _behind(name).items()
        if module not in DO_IO
        for dependency, line in imported(path, module=module)
        if any(_within(dependency, entry) for entry in IO)
        and not any(_within(dependency, item) or _within(item, dependency) for item in IO_OF_OBJECTS)
    ]
    assert not wrong, "\n".join(wrong)


def _behind(name: str) -> dict[str, Path]:
    """Find the modules of a service that one of its modules imports, directly or through others."""
    files, waiting = dict(modules(name.partition(".")[0])), [name]
    result = dict[str, Path]()
    while waiting:
        module = waiting.pop()
        if module in files and module not in result:
            result[module] = files[module]
            if module not in DO_IO:
                waiting += [dependency for dependency, _ in imported(files[module], module=module)]
    return result


@pytest.mark.parametrize("name", API)
def test_api_is_small(name: str) -> None:
    """One file names the functions of a service that run on a user's machine."""
    text = (ROOT / name.replace(".", "/")).with_suffix(".py").read_text()
    assert text.count("\n") <= API_LINES


def test_kopf_stays_at_the_edge() -> None:
    """Only handlers and the composition root know kopf."""
    wrong = [
        f"{path.relative_to(ROOT)}:{line}"
        for module, path in modules("manager")
        for name, line in imported(path, module=module)
        if _within(name, "kopf") and not any(_within(module, allowed) for allowed in KOPF_MAY_BE_IMPORTED_BY)
    ]
    assert not wrong, "\n".join(wrong)
