"""System packages that the real node and its images need: which are missing, and how to get them."""

import os
import platform
import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from tools.devcluster.errors import DevClusterError, MissingRequirementError
from tools.devcluster.lock import file_lock
from tools.devcluster.network import CNI_FOLDERS, CNI_PLUGINS
from tools.devcluster.places import cache_directory

ADMINISTRATOR_FOLDERS = "/usr/local/sbin:/usr/sbin:/sbin"
"""Where some of the programs are, which a user's PATH may leave out."""
INSTALL_SECONDS = 900.0

Say = Callable[[str], None]


@dataclass(frozen=True)
class Package:
    """A package of Debian and Ubuntu, and how to see that what it brings is there."""

    name: str  # its name
    purpose: str  # what the dev cluster does with it
    programs: tuple[str, ...] = ()  # programs that it brings; on PATH or in an administrator's folder
    files: tuple[tuple[Path, ...], ...] = ()  # files that it brings: of each group one must be there

    @property
    def present(self) -> bool:
        """Whether this machine has what the package brings, from whatever source."""
        path = f"{os.environ.get('PATH', os.defpath)}:{ADMINISTRATOR_FOLDERS}"
        programs = all(shutil.which(program, path=path) for program in self.programs)
        return programs and all(any(file.exists() for file in group) for group in self.files)


PACKAGES = (
    Package("util-linux", "namespaces", ("unshare", "nsenter")),
    Package("iproute2", "the node's network", ("ip",)),
    Package("runc", "runs containers", ("runc",)),
    Package(
        "containernetworking-plugins",
        "the pods' network",
        files=tuple(tuple(folder / plugin for folder in CNI_FOLDERS) for plugin in CNI_PLUGINS),
    ),
    Package("debootstrap", "the base of our images", ("debootstrap",)),
    Package("buildah", "builds our images", ("buildah",)),
    Package(
        "ca-certificates", "downloads", files=((Path("/etc/ssl/certs/ca-certificates.crt"), Path("/etc/ssl/cert.pem")),)
    ),
)
"""What the real node needs beside what we build ourselves."""


def real_node_refusal() -> str | None:
    """Why this user on this machine cannot have a real node, or None: a matter of rights, not of packages."""
    if sys.platform != "linux" or platform.machine() not in ("x86_64", "aarch64"):
        return f"the real node needs Linux on x86_64 or aarch64, and this is {platform.system()} {platform.machine()}"
    if os.geteuid() != 0:
        return "the real node needs root: run with sudo; kwok nodes work without"
    return None


def missing(packages: Sequence[Package] = PACKAGES) -> list[Package]:
    """The packages whose programs or files are not there."""
    return [package for package in packages if not package.present]


def install(say: Say = print) -> None:
    """Install what the real node lacks, where there can be one. Raises as `install_packages`."""
    refusal = real_node_refusal()
    if refusal:
        say(f"no system packages are needed: {refusal}")
        return
    install_packages(missing(), say)


def install_packages(wanted: Sequence[Package], say: Say = print) -> None:
    """Install packages: with apt-get as root on Debian and Ubuntu, said first; elsewhere say what to install."""
    if not wanted:
        return
    names = [package.name for package in wanted]
    if shutil.which("apt-get") is None:
        raise MissingRequirementError(f"install what Debian calls {' '.join(names)} with this system's package manager")
    if os.geteuid() != 0:
        raise MissingRequirementError(f"missing here: {' '.join(names)}; as root, apt-get install {' '.join(names)}")
    say(f"installing system packages: {', '.join(f'{one.name} ({one.purpose})' for one in wanted)}")
    for command in (["update"], ["install", "-y", "--no-install-recommends", *names]):
        _apt_get(command, f"install {' '.join(names)} by hand")
    left = [package.name for package in missing(wanted)]
    if left:
        raise MissingRequirementError(f"still missing after apt-get: what {', '.join(left)} bring")


def update_lists(say: Say = print) -> None:
    """Have apt-get read anew which packages there are."""
    if os.geteuid() != 0:
        raise MissingRequirementError("as root, apt-get update")
    say("reading which system packages there are")
    _apt_get(["update"], "run it by hand")


def _apt_get(command: Sequence[str], hint: str) -> None:
    # Rows of tests begin beside each other, and apt-get fails where another one is at work.
    with file_lock(cache_directory() / "apt-get.lock", "apt-get"):
        done = subprocess.run(
            ["apt-get", "-qq", *command],
            check=False,
            env={**os.environ, "DEBIAN_FRONTEND": "noninteractive"},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=INSTALL_SECONDS,
        )
    if done.returncode != 0:
        last = "\n".join(f"    {line}" for line in done.stdout.splitlines()[-10:])
        raise DevClusterError(f"`apt-get {' '.join(command)}` failed; {hint}:\n{last}")
