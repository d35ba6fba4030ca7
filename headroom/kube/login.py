"""Finding the login that a program should use: a kubeconfig, or the pod's service account."""

import os
from pathlib import Path

from headroom.kube import connection
from headroom.kube.connection import Connection
from headroom.kube.connector import check_proxy
from headroom.kube.errors import LoginError


def connect(kubeconfig: str | None = None, context: str | None = None) -> Connection:
    """Find a login: the given kubeconfig, else the pod's service account, else $KUBECONFIG or ~/.kube/config.

    Args:
        kubeconfig: path of a kubeconfig file; several are joined by the path separator, as in $KUBECONFIG.
        context: context of the kubeconfig to use instead of its current one.

    Raises:
        LoginError: there is none, or it is not usable; one line with the way out.
    """
    result = _connection(kubeconfig, context)
    check_proxy(result.proxy_in_use)
    return result


def _connection(kubeconfig: str | None, context: str | None) -> Connection:
    from headroom.kube.kubeconfig import from_kubeconfig  # noqa: PLC0415 - a pod never reads one, and YAML costs memory

    if kubeconfig is not None:
        return from_kubeconfig(kubeconfig, context)
    if (
        context is None
        and (connection.SERVICE_ACCOUNT / "token").exists()
        and os.environ.get("KUBERNETES_SERVICE_HOST")
    ):
        return connection.in_cluster()
    result = os.environ.get("KUBECONFIG") or str(Path.home() / ".kube" / "config")
    if not any(Path(part).is_file() for part in result.split(os.pathsep) if part):
        raise LoginError(
            f"No way to log in to Kubernetes: not in a pod, and there is no kubeconfig at {result}. "
            "Set KUBECONFIG or give --kubeconfig FILE."
        )
    return from_kubeconfig(result, context)
