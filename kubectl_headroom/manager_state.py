"""The manager as it can be seen from outside: its Deployment."""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from manager.api import NodeFilter

NAME: Final = "headroom-manager"  # name of the manager's Deployment and of its Lease

Json = Mapping[str, Any]


def deployment_path(namespace: str) -> str:
    return f"/apis/apps/v1/namespaces/{namespace}/deployments/{NAME}"


def exclusion(deployment: Json | None) -> NodeFilter:
    """Return the nodes that the manager's settings exclude; the default without a Deployment or such a setting."""
    text = flag(deployment, "--exclude-nodes")
    try:
        return NodeFilter() if text is None else NodeFilter.of(text)
    except ValueError:  # such a manager does not start
        return NodeFilter()


def flag(deployment: Json | None, name: str) -> str | None:
    """The value of a flag in a Deployment's command, such as "--exclude-nodes"; None where it is not given."""
    result = None
    words = _words(deployment or {})
    for word in words:
        given, equals, value = word.partition("=")
        if given == name:
            result = value if equals else next(words, "")
    return result


def _words(deployment: Json) -> Iterator[str]:
    template = (deployment.get("spec") or {}).get("template") or {}
    for container in (template.get("spec") or {}).get("containers") or ():
        for word in (*(container.get("command") or ()), *(container.get("args") or ())):
            yield str(word)
