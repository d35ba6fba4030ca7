"""The families of programs that a cluster is made of, each with a go.mod of its own: their needs do not clash."""

import re
from dataclasses import dataclass
from pathlib import Path

from tools.devcluster.errors import DevClusterError

MODULES = Path(__file__).with_name("modules")
VERSION_PACKAGE = "k8s.io/component-base/version"
"""Where the Kubernetes components keep the version that they report; helm compares charts with it."""


@dataclass(frozen=True)
class Family:
    """What one module builds."""

    name: str  # its folder under `modules/`
    module: str  # the requirement in its go.mod whose version is the family's
    packages: tuple[str, ...]  # what to build, in the order of `binaries`
    binaries: tuple[str, ...]  # the files that the build makes
    minutes: float  # how long a build with empty Go caches takes on 2 cores; said beforehand, so that nobody wonders
    calls: tuple[str, ...] = ()
    """Names under which the single binary is called (symbolic links), for a multi-call binary."""
    tags: str = ""  # Go build tags, separated by spaces
    stamps: tuple[str, ...] = ()  # linker settings `variable=value`; `{version}`, `{major}` and `{minor}` are filled in
    version_arguments: tuple[str, ...] = ("--version",)
    """What makes a program print its version, unless `own_version_arguments` says otherwise."""
    own_version_arguments: tuple[tuple[str, tuple[str, ...]], ...] = ()
    """Programs of the family that need other arguments to print their version."""

    @property
    def directory(self) -> Path:
        """The folder of its go.mod."""
        return MODULES / self.name

    @property
    def programs(self) -> tuple[str, ...]:
        """What users of the family run."""
        return self.calls or self.binaries

    @property
    def version(self) -> str:
        """The version that go.mod pins, such as `v1.36.2`."""
        text = (self.directory / "go.mod").read_text()
        match = re.search(rf"^(?:require)?\s*{re.escape(self.module)} (v\S+)", text, re.MULTILINE)
        if match is None:
            raise DevClusterError(f"{self.directory / 'go.mod'} does not require {self.module}")
        return match[1]

    @property
    def go_version(self) -> str:
        """The lowest Go that go.mod accepts, such as `1.26.0`."""
        match = re.search(r"^go (\S+)", (self.directory / "go.mod").read_text(), re.MULTILINE)
        if match is None:
            raise DevClusterError(f"{self.directory / 'go.mod'} has no go line")
        return match[1]

    @property
    def link_flags(self) -> str:
        """The value of `-ldflags`: no symbols, and the version stamps."""
        major, minor = self.version.removeprefix("v").split(".")[:2]
        stamps = [one.format(version=self.version, major=major, minor=minor) for one in self.stamps]
        return " ".join(["-s", "-w", *(f"-X {stamp}" for stamp in stamps)])

    def version_command(self, program: str) -> tuple[str, ...]:
        """The arguments that make this program print its version."""
        return dict(self.own_version_arguments).get(program, self.version_arguments)


FAMILIES = {
    family.name: family
    for family in (
        Family(
            name="kubernetes",
            module="k8s.io/kubernetes",
            packages=(".",),
            binaries=("kubernetes",),
            calls=("kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubectl", "kubelet"),
            minutes=9,
            stamps=(
                f"{VERSION_PACKAGE}.gitVersion={{version}}",
                f"{VERSION_PACKAGE}.gitMajor={{major}}",
                f"{VERSION_PACKAGE}.gitMinor={{minor}}",
                f"{VERSION_PACKAGE}.gitTreeState=clean",
            ),
            own_version_arguments=(("kubectl", ("version", "--client")),),
        ),
        Family(
            name="etcd",
            module="go.etcd.io/etcd/server/v3",
            packages=("go.etcd.io/etcd/server/v3",),
            binaries=("etcd",),
            minutes=1,
        ),
        Family(
            name="kwok",
            module="sigs.k8s.io/kwok",
            packages=("sigs.k8s.io/kwok/cmd/kwok",),
            binaries=("kwok",),
            minutes=2,
        ),
        Family(
            name="helm",
            module="helm.sh/helm/v4",
            packages=("helm.sh/helm/v4/cmd/helm",),
            binaries=("helm",),
            minutes=2,
            version_arguments=("version", "--short"),
        ),
        Family(
            name="containerd",
            module="github.com/containerd/containerd/v2",
            packages=tuple(
                f"github.com/containerd/containerd/v2/cmd/{command}"
                for command in ("containerd", "containerd-shim-runc-v2", "ctr")
            ),
            binaries=("containerd", "containerd-shim-runc-v2", "ctr"),
            minutes=2,
            tags="no_btrfs no_devmapper no_zfs",
            own_version_arguments=(("containerd-shim-runc-v2", ("-v",)),),
        ),
    )
}
"""Every family by name."""

CONTROL_PLANE = ("kubernetes", "etcd", "kwok", "helm")  # what a cluster of kwok nodes needs
REAL_NODE = (*CONTROL_PLANE, "containerd")  # what a cluster with a real node needs
