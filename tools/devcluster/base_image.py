"""The base of our images without a registry: this machine's Debian or Ubuntu release with Python, by debootstrap."""

import hashlib
import platform
import re
import shutil
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from tools.devcluster.commands import CommandError, DevClusterError, MissingRequirementError, run
from tools.devcluster.oci import ARCHITECTURES, Layout, write_layout

NAME = "localhost/headroom-base:dev"
PACKAGES = ("python3", "python3-pip", "ca-certificates", "gcc", "libc6-dev", "python3-dev")
LEFT_OUT = ("var/cache/apt", "var/lib/apt/lists", "var/log", "usr/share/doc", "usr/share/man", "usr/share/locale")
"""Folders whose contents an image does not need."""
BOOTSTRAP_SECONDS = 1200.0
KEY_LENGTH = 16
DEBIAN = ("bookworm", "http://deb.debian.org/debian")  # suite and mirror where the machine is neither Debian nor Ubuntu

Say = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Source:
    """Where the packages come from."""

    suite: str  # name of the release, such as `bookworm`
    mirror: str  # URL of the archive
    components: tuple[str, ...]  # such as `main`; Ubuntu has pip in `universe`
    machine: str = platform.machine()  # the machine that runs them, as `uname -m` names it

    @property
    def key(self) -> str:
        """A key over all inputs of the base, except the archive's own updates."""
        words = (self.suite, *self.components, *PACKAGES, *LEFT_OUT, self.machine)
        return hashlib.sha256("\0".join(words).encode()).hexdigest()[:KEY_LENGTH]


def source(os_release: str, index_targets: str) -> Source:
    """Choose the packages' source as this machine's apt is configured.

    Args:
        os_release: the text of `/etc/os-release`.
        index_targets: lines `<archive URL> <suite> <component>`, as apt prints them.
    """
    fields = dict(re.findall(r'^(\w+)="?([^"\n]*)"?$', os_release, re.MULTILINE))
    suite = fields.get("VERSION_CODENAME", "")
    targets = [line.split() for line in index_targets.splitlines()]
    result = [(site, component) for site, release, component in targets if release == suite]
    components = ("main", "universe") if fields.get("ID") == "ubuntu" else ("main",)
    for site, component in result:
        if component == "main":
            return Source(suite, site.rstrip("/"), components)
    return Source(*DEBIAN, ("main",))


def host_source() -> Source:
    """The source that this machine's apt uses."""
    try:
        form = "$(SITE) $(RELEASE) $(COMPONENT)"
        targets = run(["apt-get", "indextargets", "--format", form, "Identifier: Packages"])
    except DevClusterError:
        targets = ""  # no apt here
    os_release = Path("/etc/os-release")
    return source(os_release.read_text() if os_release.exists() else "", targets)


def build(origin: Source, directory: Path, say: Say = print) -> Layout:
    """Make the base image."""
    if shutil.which("debootstrap") is None:
        raise MissingRequirementError(
            "debootstrap is not installed: install it (Debian, Ubuntu: apt-get install debootstrap)"
        )
    started = time.monotonic()
    say(f"building the base image from {origin.mirror} {origin.suite}: about 2 min, once")
    with tempfile.TemporaryDirectory(dir=directory.parent, prefix=".partial-") as work:
        root, layer = Path(work, "root"), Path(work, "layer.tar")
        _bootstrap(origin, root)
        left_out = [f"--exclude=./{folder}/*" for folder in LEFT_OUT]
        options = ["--numeric-owner", "--one-file-system", *left_out]
        run(["tar", "--create", f"--file={layer}", f"--directory={root}", *options, "."])
        config = {"Env": ["PATH=/usr/local/bin:/usr/bin:/bin"]}
        layout = write_layout(Path(work, "layout"), NAME, layer, config, origin.machine)
        layout.directory.rename(directory)
    say(f"built the base image in {time.monotonic() - started:.0f} s")
    return Layout(NAME, directory)


def _bootstrap(origin: Source, root: Path) -> None:
    options = [
        f"--arch={ARCHITECTURES[origin.machine]}",
        "--variant=minbase",
        f"--include={','.join(PACKAGES)}",
        f"--components={','.join(origin.components)}",
    ]
    # In a mount namespace of its own, so that what debootstrap mounts in the tree is gone with it.
    command: list[str | Path] = ["unshare", "--mount", "debootstrap", *options, origin.suite, root, origin.mirror]
    try:
        run(command, timeout_seconds=BOOTSTRAP_SECONDS)
    except CommandError as error:
        log = root / "debootstrap" / "debootstrap.log"
        lines = (log.read_text(errors="replace") if log.exists() else error.output).strip().splitlines()[-5:]
        raise DevClusterError(
            f"debootstrap cannot make the base image from {origin.mirror}. Make the mirror reachable (it is the one of "
            "this machine's apt). It says:\n" + "\n".join(f"    {line}" for line in lines)
        ) from error
