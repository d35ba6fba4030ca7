"""Finding the login that a program should use: a kubeconfig, or the pod's service account."""

import os
from dataclasses import replace
from pathlib import Path

from headroom.kube import connection
from headroom.kube.connection import Connection, Overrides
from headroom.kube.connector import check_proxy
from headroom.kube.errors import LoginError


def connect(
    kubeconfig: str | None = None, context: str | None = None, overrides: Overrides | None = None
) -> Connection:
    """Find a login: the given kubeconfig, else the pod's service account, else $KUBECONFIG or ~/.kube/config.

    Args:
        kubeconfig: path of a kubeconfig file; several are joined by the path separator, as in $KUBECONFIG.
        context: context of the kubeconfig to use instead of its current one.
        overrides: the parts of the login that flags replace.

    Raises:
        LoginError: there is none, or it is not usable; one line with the way out.
    """
    result = _connection(kubeconfig, context, overrides or Overrides())
    check_proxy(result.proxy_in_use)
    return result


def _connection(kubeconfig: str | None, context: str | None, overrides: Overrides) -> Connection:
    from headroom.kube.kubeconfig import from_kubeconfig  # noqa: PLC0415 - a pod never reads one, and YAML costs memory

    if kubeconfig is not None:
        return from_kubeconfig(kubeconfig, context, overrides)
    if (
        not (context or overrides.server or overrides.cluster or overrides.user)
        and (connection.SERVICE_ACCOUNT / "token").exists()
        and os.environ.get("KUBERNETES_SERVICE_HOST")
    ):
        return _of_pod(overrides)
    result = os.environ.get("KUBECONFIG") or str(Path.home() / ".kube" / "config")
    has_file = any(Path(part).is_file() for part in result.split(os.pathsep) if part)
    if not has_file and not overrides.server:
        raise LoginError(
            f"No way to log in to Kubernetes: not in a pod, and there is no kubeconfig at {result}. "
            "Set KUBECONFIG or give --kubeconfig FILE."
        )
    return from_kubeconfig(result if has_file else "", context, overrides)


def _of_pod(overrides: Overrides) -> Connection:
    result, header = connection.in_cluster(), overrides.authorization
    if header is not None:
        result = replace(result, authorization=lambda: header, renewed=None, origin="--token")
    return replace(result, tls=connection.tls_context(verify=False), renewed=None) if overrides.insecure else result
