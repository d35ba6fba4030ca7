"""A control plane: etcd, API server, controller manager, scheduler, with RBAC and certificates of its own."""

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import yaml

from tools.devcluster.api import ApiClient, ApiError
from tools.devcluster.binaries import Binaries
from tools.devcluster.certs import Pki
from tools.devcluster.commands import DevClusterError
from tools.devcluster.component import Component
from tools.devcluster.process import Supervisor, wait_until

SERVICE_SUBNET = "10.96.0.0/16"
API_ADDRESS = "10.96.0.1"  # the ClusterIP of the API server: the first address of the service range
API_PORT = 443
READY_SECONDS = 60.0
APISERVER_GRACE_SECONDS = 1.5  # it waits for open watches to end, which they do not do by themselves
FORWARD_SCRIPT = Path(__file__).with_name("forward.py")
REQUESTS_PER_SECOND = 500
"""What the controllers and the scheduler allow themselves; the defaults (20 to 50) are for shared clusters."""
RECORDED_GROUP = "headroom:recorded"  # what users of this group write is audited with what they sent and were answered
AUDIT_POLICY = {
    "apiVersion": "audit.k8s.io/v1",
    "kind": "Policy",
    "omitStages": ["RequestReceived"],
    "rules": [
        {"level": "RequestResponse", "userGroups": [RECORDED_GROUP], "verbs": ["create", "patch", "update", "delete"]},
        {"level": "Metadata"},
    ],
}
CLIENTS = {
    "admin": ("admin", ("system:masters",)),
    "controller-manager": ("system:kube-controller-manager", ()),
    "scheduler": ("system:kube-scheduler", ()),
    "kwok": ("kwok", ("system:masters",)),
}
"""Who gets a kubeconfig: file name -> user, groups."""


@dataclass(frozen=True)
class Placement:
    """Where a control plane runs: on the host's loopback, or inside a network namespace of its own."""

    namespaces: tuple[Path, ...] = ()  # namespaces of its programs; none: the host's
    address: str = "127.0.0.1"  # what the API server listens on
    port: int = 0  # the API server's port; 0: a free one
    advertised: bool = False
    """Whether the Service `kubernetes` gets the address as its endpoint. A loopback address may not be one."""

    @classmethod
    def inside(cls, namespace: Path) -> "Placement":
        """Inside a network namespace, bound to the ClusterIP: in-pod clients work without kube-proxy."""
        return cls((namespace,), API_ADDRESS, API_PORT, advertised=True)


@dataclass
class ControlPlane:
    """The programs of one control plane. `start` returns when the API server serves and accounts are made."""

    directory: Path
    supervisor: Supervisor
    binaries: Binaries
    pki: Pki
    placement: Placement = field(default_factory=Placement)

    def __post_init__(self) -> None:
        self.audit_log = self.directory / "audit.log"
        """Every request that the API server answered, one JSON object a line; see `AUDIT_POLICY`."""
        self.etcd = self._component("etcd", self._etcd_command)
        self.apiserver = self._component("kube-apiserver", self._apiserver_command)
        self.apiserver.ready, self.apiserver.port = self._apiserver_ready, self.placement.port
        self.apiserver.needs = [self.etcd]
        self.apiserver.grace_seconds = APISERVER_GRACE_SECONDS
        self.controller_manager = self._component("kube-controller-manager", self._controller_manager_command)
        self.scheduler = self._component("kube-scheduler", self._scheduler_command)
        self.forwarder: Component | None = None
        if self.placement.namespaces:
            self.forwarder = Component(self.supervisor, "forwarder", self._forward_command, self._forwards)
        self._api: ApiClient | None = None
        self._api_port = 0

    def start(self) -> None:
        """Start everything. `kubeconfig` and `api` work when this returns."""
        self._prepare()
        self.etcd.launch()
        if self.forwarder is not None:
            self.forwarder.start()
        self.apiserver.start()
        for name in ("controller-manager", "scheduler"):
            self.kubeconfig(name, self.url)
        self.controller_manager.launch()
        self.scheduler.launch()
        programs = [one.process for one in (self.controller_manager, self.scheduler) if one.process]
        wait_until(self._accounts_made, "making the first service account", READY_SECONDS, programs)

    def close(self) -> None:
        """Close our own connections to the API server."""
        if self._api is not None:
            self._api.close()

    @property
    def url(self) -> str:
        """The API server's address for clients in the control plane's network."""
        return f"https://{self.placement.address}:{self.apiserver.port}"

    @property
    def host_url(self) -> str:
        """The API server's address for clients on this machine's loopback."""
        return f"https://127.0.0.1:{self._host_port(self.apiserver.port)}"

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
        self, name: str, configuration: Mapping[str, object], *, elect: bool = False, host: str = ""
    ) -> Component:
        """Start one more kube-scheduler beside the default one.

        Args:
            name: unique; names its log.
            configuration: a KubeSchedulerConfiguration; its client connection is set here.
            elect: whether its leader election holds as it says; else there is none.
            host: the host name under which it holds a Lease; empty: this machine's.
        """
        rename = ["unshare", "--uts", "sh", "-c", 'hostname "$0" && exec "$@"', host] if host else []
        component = self._component(name, lambda _: [*rename, *self._scheduler(name, configuration, elect=elect)])
        component.launch()
        return component

    def _component(self, name: str, command: Callable[[int], Sequence[str | Path]]) -> Component:
        return Component(self.supervisor, name, command, cwd=self.directory, namespaces=self.placement.namespaces)

    def _host_port(self, port: int) -> int:
        return port if self.forwarder is None else self.forwarder.port

    def _prepare(self) -> None:
        addresses = sorted({API_ADDRESS, "127.0.0.1", self.placement.address})
        service = "kubernetes.default.svc"
        names = ["localhost", "kubernetes", "kubernetes.default", service, f"{service}.cluster.local"]
        self._serving = self.pki.server("apiserver", addresses, names)
        self._kubelet_client = self.pki.client("kubelet-client", "kube-apiserver", ["system:masters"])
        self._proxy_client = self.pki.client("front-proxy", "front-proxy-client")
        self._audit_policy = self.directory / "audit-policy.yaml"
        self._audit_policy.write_text(yaml.safe_dump(AUDIT_POLICY))

    def _etcd_command(self, _: int) -> list[str | Path]:
        return [
            self.binaries.path("etcd"),
            "--name=etcd",
            "--data-dir=etcd",
            "--unsafe-no-fsync",
            f"--listen-client-urls={self._etcd_url}",
            # What follows must look like host:port and becomes the name of a socket in the working directory.
            "--advertise-client-urls=unix://etcd.sock:1",
            "--listen-peer-urls=unix://peer.sock:1",
            "--initial-advertise-peer-urls=unix://peer.sock:1",
            "--initial-cluster=etcd=unix://peer.sock:1",
            "--quota-backend-bytes=4294967296",
            "--log-level=warn",
        ]

    @property
    def _etcd_url(self) -> str:
        return f"unix://{self.directory}/etcd.sock"

    def _apiserver_command(self, port: int) -> list[str | Path]:
        return [
            self.binaries.path("kube-apiserver"),
            f"--etcd-servers={self._etcd_url}",
            f"--bind-address={self.placement.address}",
            f"--advertise-address={self.placement.address}",
            f"--secure-port={port}",
            f"--endpoint-reconciler-type={'lease' if self.placement.advertised else 'none'}",
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
            f"--audit-policy-file={self._audit_policy}",
            f"--audit-log-path={self.audit_log}",
            "--audit-log-maxsize=1000",
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

    def _scheduler_command(self, _: int) -> list[str | Path]:
        return self._scheduler("kube-scheduler", {})

    def _scheduler(self, name: str, configuration: Mapping[str, object], *, elect: bool = False) -> list[str | Path]:
        document = {
            "apiVersion": "kubescheduler.config.k8s.io/v1",
            "kind": "KubeSchedulerConfiguration",
            **configuration,
            "leaderElection": configuration["leaderElection"] if elect else {"leaderElect": False},
            "clientConnection": {
                "kubeconfig": str(self.pki.directory / "scheduler.kubeconfig"),
                "qps": REQUESTS_PER_SECOND,
                "burst": 2 * REQUESTS_PER_SECOND,
            },
        }
        path = self.directory / f"{name}.yaml"
        path.write_text(yaml.safe_dump(document))
        return [self.binaries.path("kube-scheduler"), f"--config={path}", "--secure-port=0"]

    def _forward_command(self, port: int) -> list[str | Path]:
        namespace, target = self.placement.namespaces[0], f"{self.placement.address}:{self.placement.port}"
        return [sys.executable, "-I", "-S", FORWARD_SCRIPT, f"127.0.0.1:{port}", target, namespace]

    def _forwards(self, port: int) -> bool:
        # A connection would prove nothing: whoever else has taken the port may answer.
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

    def _accounts_made(self) -> bool:
        return self.api.exists("/api/v1/namespaces/default/serviceaccounts/default")
