"""A control plane: etcd, API server, controller manager, scheduler, with RBAC and certificates of its own."""

import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import yaml

from tools.devcluster.api import ApiClient, ApiError
from tools.devcluster.binaries import Binaries
from tools.devcluster.certs import Pki
from tools.devcluster.commands import DevClusterError
from tools.devcluster.component import Component
from tools.devcluster.network import SERVICE_ADDRESS, SERVICE_SUBNET
from tools.devcluster.process import Supervisor, wait_until

API_PORT = 443  # of the API server inside a network of its own
READY_SECONDS = 120.0
APISERVER_GRACE_SECONDS = 1.5  # it waits for open watches to end, which they do not do by themselves
FORWARD_SCRIPT = Path(__file__).with_name("forward.py")
REQUESTS_PER_SECOND = 500
"""The request rates of controllers and scheduler; the defaults (20 to 50) are for shared clusters."""
RECORDED_GROUP = "headroom:recorded"  # writes of this group are audited with request and response
WRITES = ["create", "patch", "update", "delete"]
AUDIT_POLICY = {
    "apiVersion": "audit.k8s.io/v1",
    "kind": "Policy",
    "omitStages": ["RequestReceived"],
    "rules": [{"level": "RequestResponse", "userGroups": [RECORDED_GROUP], "verbs": WRITES}, {"level": "Metadata"}],
}
CLIENTS = {
    "admin": ("admin", ("system:masters",)),
    "controller-manager": ("system:kube-controller-manager", ()),
    "scheduler": ("system:kube-scheduler", ()),
    "kwok": ("kwok", ("system:masters",)),
}
"""The kubeconfigs: file name -> user, groups."""


class ControlPlane:
    """The programs of one control plane. `start` returns when the API server serves and accounts are made.

    Without a network namespace it runs on this machine's loopback, with a free port. In one, the API server is bound to
    the ClusterIP, so that in-pod clients work without kube-proxy, and a forwarder leads there from the loopback.
    """

    def __init__(
        self, directory: Path, supervisor: Supervisor, binaries: Binaries, pki: Pki, namespace: Path | None = None
    ) -> None:
        self.directory, self.pki = directory, pki
        self._supervisor, self.binaries = supervisor, binaries
        self.namespaces = [namespace] if namespace else []
        self._address = SERVICE_ADDRESS if namespace else "127.0.0.1"
        self.audit_log = directory / "audit.log"
        """Every request that the API server answered, one JSON object a line; see `AUDIT_POLICY`."""
        self.etcd = self.component("etcd", self._etcd_command)
        self.apiserver = self.component("kube-apiserver", self._apiserver_command)
        self.apiserver.ready, self.apiserver.port = self._apiserver_ready, API_PORT if namespace else 0
        self.apiserver.needs = [self.etcd]
        self.apiserver.grace_seconds = APISERVER_GRACE_SECONDS
        self.controller_manager = self.component("kube-controller-manager", self._controller_manager_command)
        self.scheduler = self.component("kube-scheduler", lambda _: self._scheduler_command("kube-scheduler", {}))
        self.forwarder: Component | None = None
        if namespace:
            self.forwarder = Component(supervisor, "forwarder", self._forward_command, self._forwards)
        self._api: ApiClient | None = None
        self._api_port = 0

    def start(self) -> None:
        """Start everything. `kubeconfig` and `api` work when this returns."""
        self.etcd.launch()
        if self.forwarder is not None:
            self.forwarder.start()
        self._prepare()
        self.apiserver.start()
        for name in ("controller-manager", "scheduler"):
            self.kubeconfig(name, self.url)
        self.controller_manager.launch()
        self.scheduler.launch()
        programs = [part.process for part in (self.controller_manager, self.scheduler) if part.process]
        account = "/api/v1/namespaces/default/serviceaccounts/default"
        wait_until(lambda: self.api.exists(account), "making the first service account", READY_SECONDS, programs)

    def close(self) -> None:
        """Close our own connections to the API server."""
        if self._api is not None:
            self._api.close()

    @property
    def url(self) -> str:
        """The API server's address for clients in the control plane's network."""
        return f"https://{self._address}:{self.apiserver.port}"

    @property
    def host_url(self) -> str:
        """The API server's address for clients on this machine's loopback."""
        return f"https://127.0.0.1:{(self.forwarder or self.apiserver).port}"

    @property
    def api(self) -> ApiClient:
        """The API server, as administrator."""
        if self._api is None:
            raise DevClusterError("the API server was never started")
        return self._api

    def kubeconfig(self, name: str, url: str) -> Path:
        """Make a client certificate for one of `CLIENTS` and write a kubeconfig with it."""
        user, groups = CLIENTS[name]
        return self.pki.kubeconfig(name, self.pki.client(name, user, groups), url)

    def add_scheduler(
        self,
        name: str,
        configuration: Mapping[str, object],
        *,
        elect: bool = False,
        host: str = "",
        flags: Sequence[str] = (),
    ) -> Component:
        """Start one more kube-scheduler beside the default one.

        Args:
            name: unique; names its log.
            configuration: a KubeSchedulerConfiguration; its client connection is set here.
            elect: whether its leader election holds as it says; else there is none.
            host: the host name under which it holds a Lease; empty: this machine's.
            flags: further flags.
        """
        rename = ["unshare", "--uts", "sh", "-c", 'hostname "$0" && exec "$@"', host] if host else []
        component = self.component(
            name, lambda _: [*rename, *self._scheduler_command(name, configuration, elect=elect), *flags]
        )
        component.launch()
        return component

    def component(self, name: str, command: Callable[[int], Sequence[str | Path]]) -> Component:
        """A program beside the control plane: in its network, in its folder; not started here."""
        return Component(self._supervisor, name, command, cwd=self.directory, namespaces=self.namespaces)

    def _prepare(self) -> None:
        service = "kubernetes.default.svc"
        names = ["localhost", "kubernetes", "kubernetes.default", service, f"{service}.cluster.local"]
        self._serving = self.pki.server("apiserver", [SERVICE_ADDRESS, "127.0.0.1"], names)
        self._kubelet_client = self.pki.client("kubelet-client", "kube-apiserver", ["system:masters"])
        self._proxy_client = self.pki.client("front-proxy", "front-proxy-client")
        (self.directory / "audit-policy.yaml").write_text(yaml.safe_dump(AUDIT_POLICY))

    def _etcd_command(self, _: int) -> list[str | Path]:
        return [
            self.binaries.path("etcd"),
            "--name=etcd",
            "--data-dir=etcd",
            "--unsafe-no-fsync",
            f"--listen-client-urls=unix://{self.directory}/etcd.sock",
            # The next value must look like host:port and becomes the name of a socket in the working directory.
            "--advertise-client-urls=unix://etcd.sock:1",
            "--listen-peer-urls=unix://peer.sock:1",
            "--initial-advertise-peer-urls=unix://peer.sock:1",
            "--initial-cluster=etcd=unix://peer.sock:1",
            "--quota-backend-bytes=4294967296",
            "--log-level=warn",
        ]

    def _apiserver_command(self, port: int) -> list[str | Path]:
        return [
            self.binaries.path("kube-apiserver"),
            f"--etcd-servers=unix://{self.directory}/etcd.sock",
            f"--bind-address={self._address}",
            f"--advertise-address={self._address}",
            f"--secure-port={port}",
            # Whether the Service `kubernetes` gets the address as its endpoint; a loopback address may not be one.
            f"--endpoint-reconciler-type={'lease' if self.namespaces else 'none'}",
            f"--service-cluster-ip-range={SERVICE_SUBNET}",
            f"--tls-cert-file={self._serving.cert}",
            f"--tls-private-key-file={self._serving.key}",
            f"--client-ca-file={self.pki.ca}",
            "--authorization-mode=Node,RBAC",
            "--enable-admission-plugins=NodeRestriction",
            "--allow-privileged=true",
            "--service-account-issuer=https://kubernetes.default.svc.cluster.local",
            f"--service-account-key-file={self.pki.service_account_key}",
            f"--service-account-signing-key-file={self.pki.service_account_key}",
            "--enable-aggregator-routing=true",
            f"--requestheader-client-ca-file={self.pki.ca}",
            "--requestheader-allowed-names=front-proxy-client",
            "--requestheader-username-headers=X-Remote-User",
            "--requestheader-group-headers=X-Remote-Group",
            "--requestheader-extra-headers-prefix=X-Remote-Extra-",
            f"--proxy-client-cert-file={self._proxy_client.cert}",
            f"--proxy-client-key-file={self._proxy_client.key}",
            f"--kubelet-client-certificate={self._kubelet_client.cert}",
            f"--kubelet-client-key={self._kubelet_client.key}",
            f"--kubelet-certificate-authority={self.pki.ca}",
            "--kubelet-preferred-address-types=InternalIP",
            "--audit-policy-file=audit-policy.yaml",
            f"--audit-log-path={self.audit_log}",
            "--audit-log-maxsize=1000",
            # By the defaults, kube-scheduler has bindings refused (429) when it outpaces a machine with two CPUs.
            "--max-requests-inflight=4000",
            "--max-mutating-requests-inflight=4000",
            # By the default of 100, it then opens up to 200 connections a second: a tenth of the API server's CPU time.
            "--http2-max-streams-per-connection=4000",
        ]

    def _controller_manager_command(self, _: int) -> list[str | Path]:
        return [
            self.binaries.path("kube-controller-manager"),
            f"--kubeconfig={self.pki.directory}/controller-manager.kubeconfig",
            "--leader-elect=false",
            "--secure-port=0",
            "--use-service-account-credentials",
            f"--service-account-private-key-file={self.pki.service_account_key}",
            f"--root-ca-file={self.pki.ca}",
            f"--cluster-signing-cert-file={self.pki.ca}",
            f"--cluster-signing-key-file={self.pki.ca_key}",
            f"--kube-api-qps={REQUESTS_PER_SECOND}",
            f"--kube-api-burst={2 * REQUESTS_PER_SECOND}",
        ]

    def _scheduler_command(
        self, name: str, configuration: Mapping[str, object], *, elect: bool = False
    ) -> list[str | Path]:
        connection: dict[str, object] = {"qps": REQUESTS_PER_SECOND, "burst": 2 * REQUESTS_PER_SECOND}
        connection["kubeconfig"] = str(self.pki.directory / "scheduler.kubeconfig")
        document = {
            "apiVersion": "kubescheduler.config.k8s.io/v1",
            "kind": "KubeSchedulerConfiguration",
            **configuration,
            "leaderElection": configuration["leaderElection"] if elect else {"leaderElect": False},
            "clientConnection": connection,
        }
        path = self.directory / f"{name}.yaml"
        path.write_text(yaml.safe_dump(document))
        return [self.binaries.path("kube-scheduler"), f"--config={path}", "--secure-port=0"]

    def _forward_command(self, port: int) -> list[str | Path]:
        target = f"{self._address}:{API_PORT}"
        return [sys.executable, "-I", "-S", FORWARD_SCRIPT, f"127.0.0.1:{port}", target, *self.namespaces]

    def _forwards(self, port: int) -> bool:
        # A connection would prove nothing: another program on the port may respond.
        process = None if self.forwarder is None else self.forwarder.process
        return process is not None and f":{port} leads to" in process.log.read_text()

    def _apiserver_ready(self, port: int) -> bool:
        if self._api is None or self._api_port != port:
            self.close()
            self._api_port = port
            self._api = ApiClient.from_kubeconfig(self.kubeconfig("admin", self.host_url))
        try:
            return "ok" in self._api.get("/readyz")["text"]
        except ApiError:
            return False
