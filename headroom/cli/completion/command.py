"""`kubectl-headroom __complete WORDS…` and `kubectl_complete-headroom`: print what can stand next."""

import asyncio
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from headroom.cli import arguments
from headroom.cli.completion.candidates import Candidate, Names, Next, after
from headroom.runtime.sanitize import printable

PATIENCE_SECONDS: Final = 2.0  # nobody waits longer for a completion [s]
_SAMPLE: Final = 500
_ONLY_THESE: Final = ":4"
_FILES_TOO: Final = ":0"


def run(words: Sequence[str]) -> None:
    """Print the candidates, one a line, then what the shell may add of its own.

    Args:
        words: what was typed after the program's name; the last is being typed, and may be empty.
    """
    found = after(arguments.parser(), words)
    typed = words[-1] if words else ""
    for word, told in (*found.candidates, *_names(found, typed)):
        # An escaped name would be another name, and one as it is could forge a line: what cannot be shown is left out.
        if word.startswith(typed) and word.isprintable():
            print(f"{word}\t{printable(told)}" if told else word)
    print(_FILES_TOO if found.files else _ONLY_THESE)


def _names(found: Next, typed: str) -> list[Candidate]:
    if found.names is None:
        return []
    if found.names is Names.FIELDS:
        from headroom.cli.config.fields import every_field  # noqa: PLC0415 - only who asks for it pays for it

        return [(each.path, each.meaning) for each in every_field()]
    if found.names is Names.POLICIES:
        from headroom.backtest.policies import names  # noqa: PLC0415 - as above

        return [(name, "") for name in names()]
    try:
        if found.names is Names.CONTEXTS:
            return [(name, "") for name in _contexts(found.given.get("kubeconfig"))]
        return [(name, "") for name in asyncio.run(_asked(found, typed))]
    except Exception:  # noqa: BLE001 - somebody is typing: a message in between helps nobody
        return []


def _contexts(kubeconfig: str | None) -> list[str]:
    import yaml  # noqa: PLC0415 - as above

    paths = kubeconfig or os.environ.get("KUBECONFIG") or str(Path.home() / ".kube" / "config")
    names: list[str] = []
    for path in paths.split(os.pathsep):
        file = Path(path).expanduser()
        if path and file.is_file():
            document: Any = yaml.safe_load(file.read_text(encoding="utf-8")) or {}
            names += [str(each["name"]) for each in document.get("contexts") or ()]
    return list(dict.fromkeys(names))


async def _asked(found: Next, typed: str) -> list[str]:
    """Names that the cluster has; at most so many as anybody would look through."""
    from headroom import kube  # noqa: PLC0415 - as above
    from headroom.cli import live  # noqa: PLC0415

    given = found.given
    login = live.Login(given.get("kubeconfig"), given.get("context"), given.get("acts_as"))
    async with asyncio.timeout(PATIENCE_SECONDS), live.cluster(login) as api:
        namespace = live.namespace_of(api, given.get("namespace"))
        quotas = f"/apis/scheduling.x-k8s.io/v1alpha1/namespaces/{namespace}/elasticquotas"
        path = {
            Names.NODES: kube.paths.NODES,
            Names.NAMESPACES: "/api/v1/namespaces",
            Names.PODS: kube.paths.pods(namespace),
            Names.QUOTAS: quotas,
        }[found.names or Names.NODES]
        names = await api.list(path, keep=lambda item: str(item["metadata"]["name"]))
    return sorted(name for name in names[0] if name.startswith(typed))[:_SAMPLE]
