"""A whole cluster: control plane, kwok nodes, and optionally a real node; removed at the end of the block."""

import json
import os
import secrets
import shutil
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import TracebackType
from typing import Self

import yaml

from tools.devcluster import images, network, node, state
from tools.devcluster.api import ApiClient, ApiError
from tools.devcluster.binaries import Binaries
from tools.devcluster.certs import Pki
from tools.devcluster.commands import DevClusterError, run
from tools.devcluster.component import Component
from tools.devcluster.controlplane import ControlPlane
from tools.devcluster.families import CONTROL_PLANE, REAL_NODE, of_kubernetes
from tools.devcluster.kwok import KwokNodes, NodeTemplate, ready_nodes
from tools.devcluster.oci import Layout
from tools.devcluster.places import cache_directory, state_directory
from tools.devcluster.process import Supervisor, wait_until

COMMAND_SECONDS = 300.0
NODE_READY_SECONDS = 120.0
KEPT_LOGS = 10  # how many clusters' logs are kept in the cache
APPLY = ("apply", "--server-side", "--force-conflicts", "-f")

Say = Callable[[str], None]


@dataclass(frozen=True)
class ClusterSpec:
    """The parts of a cluster."""

    name: str = ""  # a short DNS label, unique among this user's running clusters; made up when empty
    kubernetes: str = ""  # the minor version, such as `1.30`; empty: see `families.of_kubernetes`
    real_node: bool = False  # whether it has a real node (kubelet, containerd, pods that run): root on Linux
    node_name: str = "node-1"  # the real node's name
    own_images: bool = True  # whether the real node starts with our own images, built when they changed
    kwok_nodes: int = 0  # how many kwok nodes it starts with
    kwok_template: NodeTemplate = field(default_factory=NodeTemplate)  # what these kwok nodes look like


class Cluster:
    """A running cluster, for a `with` block. Ends with the block, or with this process, however that ends."""

    def __init__(self, spec: ClusterSpec | None = None, say: Say = print, **settings: object) -> None:
        """Describe a cluster by its spec, or by fields of it; `with` starts it."""
        merged = replace(spec or ClusterSpec(), **settings)  # type: ignore[arg-type]
        self.spec = merged if merged.name else replace(merged, name=f"c-{secrets.token_hex(3)}")
        self.node: node.RealNode | None = None
        self.network: network.Network | None = None  # that it lives in when it has a real node
        self.dir = state_directory(self.spec.name)
        self.logs = self.dir / "logs"
        self.kubeconfig = self.dir / "kubeconfig"  # the administrator's, for clients on this machine
        self._say = say
        self._exit = ExitStack()
        self._claimed = False

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        if isinstance(error, Exception):  # not Ctrl-C
            self.keep_logs()
        self.stop()

    def start(self) -> None:
        """Start everything and wait until all nodes are Ready."""
        try:
            self._start()
        except BaseException as error:
            if isinstance(error, DevClusterError):
                self.keep_logs()
            self.stop()
            raise

    def _start(self) -> None:
        spec = self.spec
        if spec.real_node:
            node.require_root()
        families = REAL_NODE if spec.real_node else CONTROL_PLANE
        self.binaries = Binaries.find_or_build(families, self._say, spec.kubernetes)
        layouts: list[Layout] = []
        if spec.real_node:
            build = images.build_all if spec.own_images else images.build_system
            layouts = build(self.binaries, self._say)
        version = of_kubernetes(spec.kubernetes).minor
        claimed = state.claim(spec.name, version, spec.node_name if spec.real_node else None, spec.kwok_nodes)
        self._claimed = True
        self._exit.callback(state.remove, spec.name)
        started = time.monotonic()
        self.supervisor = self._exit.enter_context(Supervisor(self.logs))
        self.supervisor.remove_at_exit(self.dir)
        claimed = replace(claimed, supervisor=self.supervisor.pid)
        claimed.write()
        if spec.real_node:
            self.network = network.create(self.supervisor)
        self._start_control_plane()
        if self.network is not None:
            self._start_real_node(self.network, layouts)
        self.kwok.add(spec.kwok_nodes, spec.kwok_template)
        replace(claimed, ready=True).write()
        self._say(f"cluster {spec.name} is ready after {time.monotonic() - started:.1f} s")

    def _start_control_plane(self) -> None:
        namespace = self.network.namespace if self.network else None
        plane = ControlPlane(self.dir, self.supervisor, self.binaries, Pki(self.dir / "pki"), namespace)
        self.control_plane = plane
        self._exit.callback(plane.close)
        plane.start()
        shutil.copy(plane.pki.directory / "admin.kubeconfig", self.kubeconfig)
        self._say(f"control plane {self.binaries.kubernetes_version} serves at {plane.host_url}")
        self.kwok = KwokNodes(plane)

    def _start_real_node(self, net: network.Network, layouts: list[Layout]) -> None:
        name = self.spec.node_name
        spec = node.NodeSpec(self.spec.name, name, self.dir, self.logs, self.control_plane.url, layouts)
        self.node = node.RealNode(spec, self.binaries, self._say)
        self._exit.callback(self.node.stop)
        self.node.start(self.supervisor, self.control_plane.pki, net)
        wait_until(lambda: name in ready_nodes(self.api), f"the real node {name} being Ready", NODE_READY_SECONDS)
        self._say(f"real node {name} is Ready")

    def stop(self) -> None:
        """End everything and remove its files; may be called twice."""
        self._claimed = False
        self._exit.close()

    def check(self) -> None:
        """See that every program of the control plane still runs."""
        plane = self.control_plane
        for component in (plane.etcd, plane.apiserver, plane.controller_manager, plane.scheduler, plane.forwarder):
            if component is not None and component.process is not None:
                component.process.require_running()

    def keep_logs(self) -> Path | None:
        """Copy the logs to the cache, say where, and return the folder; the oldest ones are removed."""
        if not self._claimed:  # nothing was started
            return None
        folder = cache_directory() / "logs" / "clusters"
        target = folder / f"{time.strftime('%Y%m%d-%H%M%S')}-{self.spec.name}"
        shutil.copytree(self.logs, target, dirs_exist_ok=True, ignore_dangling_symlinks=True)
        for old in sorted(folder.iterdir())[:-KEPT_LOGS]:
            shutil.rmtree(old, ignore_errors=True)
        self._say(f"the logs of cluster {self.spec.name} are kept in {target}")
        return target

    @property
    def name(self) -> str:
        """Its name."""
        return self.spec.name

    @property
    def api(self) -> ApiClient:
        """The API server, as administrator."""
        return self.control_plane.api

    @property
    def apiserver(self) -> Component:
        """The API server: `restart`, `stop`, `start`, `kill`."""
        return self.control_plane.apiserver

    @property
    def environment(self) -> dict[str, str]:
        """Our environment with this cluster's KUBECONFIG and programs; kubectl and helm keep their files with it."""
        programs = sorted({str(self.binaries.path(program).parent) for program in ("kubectl", "helm")})
        return {
            **os.environ,
            "KUBECONFIG": str(self.kubeconfig),
            "KUBECACHEDIR": str(self.dir / "kubectl"),
            "HELM_CACHE_HOME": str(self.dir / "helm/cache"),
            "HELM_CONFIG_HOME": str(self.dir / "helm/config"),
            "HELM_DATA_HOME": str(self.dir / "helm/data"),
            "PATH": os.pathsep.join([*programs, os.environ.get("PATH", os.defpath)]),
        }

    def kubectl(self, *arguments: str | Path, stdin: str | None = None) -> str:
        """Run kubectl as administrator and return its output; CommandError when it fails."""
        words = [self.binaries.path("kubectl"), *arguments]
        return run(words, stdin=stdin, env=self.environment, timeout_seconds=COMMAND_SECONDS)

    def helm(self, *arguments: str | Path) -> str:
        """Run helm as administrator and return its output; CommandError when it fails."""
        return run([self.binaries.path("helm"), *arguments], env=self.environment, timeout_seconds=COMMAND_SECONDS)

    def apply(self, manifest: Mapping[str, object] | str) -> str:
        """Apply a manifest (server-side): YAML text, or one object."""
        return self.kubectl(*APPLY, "-", stdin=manifest if isinstance(manifest, str) else json.dumps(manifest))

    def define(self, manifest: Path) -> None:
        """Apply a CustomResourceDefinition and wait until its objects are served."""
        spec = yaml.safe_load(manifest.read_text(encoding="utf-8"))["spec"]
        served = [f"/apis/{spec['group']}/{version['name']}/{spec['names']['plural']}" for version in spec["versions"]]
        self.kubectl(*APPLY, manifest)
        wait_until(lambda: all(map(self._serves, served)), f"serving {', '.join(served)}", NODE_READY_SECONDS)

    def _serves(self, path: str) -> bool:
        """Return whether objects of a new kind can be had: at first it is not found, then 429 for a moment."""
        try:
            self.api.get(path)
        except ApiError:
            return False
        return True

    def start_replay(self) -> Path:
        """Give every kwok node, also later ones, a host tree with load from real traces; `replay_load` has annotations.

        Returns the folder with one folder a node, named like the node: the agent's `--host-root`.
        """
        root = self.dir / "hosts"
        words = [sys.executable, "-m", "tools.devcluster.replay", f"--kubeconfig={self.kubeconfig}", f"--root={root}"]
        process = self.supervisor.start("replay", words, cwd=Path(__file__).parents[2])
        names = list(self.kwok.names)
        wait_until(lambda: all((root / name).is_dir() for name in names), "replaying", NODE_READY_SECONDS, [process])
        return root

    def create_namespace(self, name: str) -> None:
        """Make a namespace and wait for its service account `default`, without which no pod can be made."""
        self.api.create_all([("/api/v1/namespaces", {"metadata": {"name": name}})])
        path = f"/api/v1/namespaces/{name}/serviceaccounts/default"
        wait_until(lambda: self.api.exists(path), f"making {path}", NODE_READY_SECONDS)

    def load_image(self, name: str) -> None:
        """Build an image of ours (`localhost/headroom-agent:dev`) if its sources changed; give it to the real node."""
        if self.node is None:
            raise DevClusterError(f"cluster {self.name} has no real node to load {name} into")
        built = {image.name: image for image in images.build_all(self.binaries, self._say)}
        if name not in built:
            raise DevClusterError(f"there is no image {name!r}; ours are {', '.join(sorted(built))}")
        self.node.load_image(built[name])
