from collections.abc import Awaitable, Callable

import pytest

from headroom import kube
from headroom.kube.connection import Connection
from kubectl_headroom import live
from kubectl_headroom.errors import FAILED, CommandError


class Refusing(kube.ApiServer):
    def __init__(self, status: int, reason: str, message: str) -> None:
        self._error = kube.ApiError(status, reason, message)

    async def get(self, path: str, params: object = None) -> dict[str, object]:  # noqa: ARG002
        raise self._error

    async def list(self, *given: object, **named: object) -> tuple[list[object], str]:  # noqa: ARG002
        raise self._error


@pytest.mark.parametrize("read", [live.node_metrics, lambda api: live.node_metric(api, "any")])
async def test_missing_kind_recommends_install(read: Callable[[kube.ApiServer], Awaitable[object]]) -> None:
    """A cluster that does not know NodeMetrics is distinguished from a node without one: Headroom is not installed."""
    with pytest.raises(CommandError, match="does not know NodeMetrics, so Headroom is not installed") as raised:
        await read(Refusing(404, "", "404 page not found"))
    assert raised.value.exit_code == FAILED


@pytest.mark.parametrize(("given", "context", "namespace"), [("a", "b", "a"), (None, "b", "b"), (None, "", "default")])
def test_namespace_of_the_context(given: str | None, context: str, namespace: str) -> None:
    """Without -n the namespace of the kubeconfig's context counts, as for kubectl."""
    api = kube.ApiServer(Connection("http://127.0.0.1:1", None, lambda: None, namespace=context), "headroom-tests")
    assert live.namespace_of(api, given) == namespace


async def test_missing_object_is_none() -> None:
    api = Refusing(404, "NotFound", 'nodemetrics.slo.koordinator.sh "any" not found')
    assert await live.node_metric(api, "any") is None
    assert await live.config_map(api, "any", "any") is None


async def test_first_failure_wins() -> None:
    api = Refusing(403, "Forbidden", "no")
    with pytest.raises(kube.ApiError):
        await live.together(live.objects(api, "/a"), live.node_metric(api, "b"))


def test_rejected_login_is_reported() -> None:
    """A login that the server does not accept names the flags that choose another."""
    assert "--context" in live._refused(kube.ApiError(401, "Unauthorized", "Unauthorized"))
    assert live._refused(kube.ApiError(403, "Forbidden", "x is forbidden")).startswith("x is forbidden. Ask")


@pytest.mark.parametrize(
    ("name", "known", "says"),
    [
        ("web-l", ["web-1", "db-1"], "Did you mean web-1?"),
        ("pool", ["ip-10-0-0-1-pool-a"], "Did you mean ip-10-0-0-1-pool-a?"),
        ("zzz", ["web-2", "web-1", "db-1", "db-2"], "There are 4 nodes, such as db-1, db-2, web-1."),
        ("any", ["web-1"], "There is only web-1."),
        ("any", [], "There are no nodes."),
    ],
)
def test_suggestions(name: str, known: list[str], says: str) -> None:
    assert live.suggestion(name, known, "nodes") == says
