"""A guest: a virtual machine with a kernel of its own, pure cgroup v2, that sees this machine's files read-only.

Runs under software emulation, without rights and network; it ends with its program, at the latest with us. Its
kernel is the distribution's own, downloaded, with an initramfs that mounts this machine's files.
"""

import hashlib
import lzma
import platform
import re
import shlex
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from tools.devcluster.commands import CommandError, DevClusterError, MissingRequirementError, run
from tools.devcluster.packages import Package, download, install_packages, missing
from tools.devcluster.places import cache_directory, file_lock
from tools.devcluster.process import Supervisor, last_lines

QEMU = "qemu-system-x86_64"
PACKAGES = (
    Package("qemu-system-x86", "runs the guest", (QEMU,)),
    Package("busybox-static", "the guest's first programs", ("busybox",)),
)
"""System packages that a guest needs; the kernel's is only downloaded and unpacked."""
META_PACKAGES = ("linux-image-amd64", "linux-image-generic")
"""Debian's and Ubuntu's names for their newest full kernel; the flavours for clouds have no 9p."""
MODULES = ("virtio_pci", "9pnet_virtio", "9p")
"""Drivers that the guest needs before it sees this machine's files; their dependencies are added."""
INIT = Path(__file__).with_name("guest-init.sh")
KEY_LENGTH = 16

CPUS = 2
MEMORY_MIB = 1024
OUT = Path("/run/out")  # where the guest sees the folder for its results
SCRATCH = Path("/run/tmp")  # a folder of the guest's own, in memory
KERNEL_ARGUMENTS = "console=ttyS0 panic=-1 quiet mitigations=off cgroup_no_v1=all psi=1"
PAUSE_SECONDS = 0.2
CONSOLE = "guest"

Say = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class GuestKernel:
    """The files that qemu boots."""

    image: Path  # the kernel
    initramfs: Path  # its first files: busybox, drivers, our init


def find_or_make(say: Say = print) -> GuestKernel:
    """The guest's kernel from the cache; made there the first time, with system packages installed where that works."""
    if sys.platform != "linux" or platform.machine() != "x86_64":
        this = f"{platform.system()} {platform.machine()}"
        raise MissingRequirementError(f"the guest needs Linux on x86_64, and this is {this}")
    install_packages(missing(PACKAGES), say)
    directory = cache_directory() / "guest"
    with file_lock(directory / "lock", "the guest's kernel", say):
        return _cached(directory) or _make(directory, say)


def _cached(directory: Path) -> GuestKernel | None:
    """The newest that was made with the init script of today."""
    for folder in sorted(directory.glob(f"*-{_key()}"), reverse=True):
        return GuestKernel(folder / "vmlinuz", folder / "initramfs")
    return None


def _key() -> str:
    """A key over our part of an initramfs."""
    return hashlib.sha256(INIT.read_bytes() + repr(MODULES).encode()).hexdigest()[:KEY_LENGTH]


def _make(directory: Path, say: Say) -> GuestKernel:
    busybox = shutil.which("busybox")
    if busybox is None or b"/ld-linux" in Path(busybox).read_bytes():
        raise MissingRequirementError(
            "busybox is not a static program: install busybox-static (Debian, Ubuntu: apt-get install busybox-static)"
        )
    with tempfile.TemporaryDirectory(dir=directory, prefix=".partial-") as partial:
        work = Path(partial)
        unpacked = _download(work, say)
        image = next(iter(sorted(unpacked.glob("boot/vmlinuz-*"))), None)
        if image is None:
            raise DevClusterError(f"the downloaded kernel packages hold no boot/vmlinuz: {sorted(work.glob('*.deb'))}")
        release = image.name.removeprefix("vmlinuz-")
        drivers = load_order(_modules(unpacked), MODULES)
        result = work / "result"
        result.mkdir()
        shutil.copyfile(image, result / "vmlinuz")
        files = {"bin/busybox": Path(busybox).read_bytes(), "init": INIT.read_bytes()}
        files |= {f"modules/{place:02d}-{name}.ko": content for place, (name, content) in enumerate(drivers.items())}
        (result / "initramfs").write_bytes(archive(files))
        target = directory / f"{release}-{_key()}"
        result.rename(target)
    return GuestKernel(target / "vmlinuz", target / "initramfs")


def _download(work: Path, say: Say) -> Path:
    """Download and unpack the distribution's newest full kernel; nothing is installed."""
    for program in ("apt-get", "apt-cache", "dpkg-deb"):
        if shutil.which(program) is None:
            raise MissingRequirementError(
                f"the guest's kernel is a package of Debian or Ubuntu, and {program} is missing"
            )
    names = _kernel_packages()
    say(f"downloading a kernel for the guest, without installing it: {' '.join(names)}")
    return download(names, work, say)


def _kernel_packages() -> list[str]:
    """The packages behind the distribution's name for its newest kernel: the image, and on Ubuntu its modules."""
    for name in META_PACKAGES:
        try:
            relations = run(["apt-cache", "depends", "--no-suggests", "--no-recommends", name])
        except CommandError:
            continue
        result = re.findall(r"Depends: (linux-(?:image|modules)\S*-\d\S*)", relations)
        if result:
            return [*result, *_modules_of(result)]
    raise MissingRequirementError(
        f"apt knows no kernel package ({' or '.join(META_PACKAGES)}): "
        "run apt-get update, or add the distribution's archive"
    )


def _modules_of(images: list[str]) -> list[str]:
    """Ubuntu's packages with an image's modules, where there are such."""
    wanted = [
        name.replace("linux-image-", f"linux-modules-{kind}")
        for name in images
        if name.startswith("linux-image-")
        for kind in ("", "extra-")
    ]
    packages = set(run(["apt-cache", "--generate", "pkgnames", "linux-modules-"]).split())
    return [name for name in wanted if name in packages and name not in images]


def _modules(unpacked: Path) -> dict[str, bytes | Path]:
    """Every module of an unpacked kernel by name; a built-in one has no content."""
    modules: dict[str, bytes | Path] = {}
    for listing in unpacked.glob("**/modules.builtin"):
        modules |= {_name(Path(line)): b"" for line in listing.read_text().split()}
    return modules | {_name(file): file for file in unpacked.glob("**/*.ko*") if file.is_file()}


def _name(file: Path) -> str:
    return file.name.partition(".")[0].replace("-", "_")


def load_order(modules: Mapping[str, bytes | Path], wanted: tuple[str, ...]) -> dict[str, bytes]:
    """Return the contents of modules and their dependencies, in load order; built-in ones are omitted.

    Args:
        modules: every module by name, as its file or its contents; empty contents are built in.
        wanted: names.
    """
    order: dict[str, bytes] = {}
    for name in wanted:
        if name not in modules:
            raise DevClusterError(f"this kernel has no module {name}: the flavours for clouds lack 9p, take a full one")
        content = _content(modules[name])
        if not content or name in order:
            continue
        needed = tuple(part.replace("-", "_") for part in _depends(content))
        order |= {key: value for key, value in load_order(modules, needed).items() if key not in order}
        order[name] = content
    return order


def _content(module: bytes | Path) -> bytes:
    if isinstance(module, bytes):
        return module
    if module.suffix == ".xz":
        return lzma.decompress(module.read_bytes())
    if module.suffix == ".zst":
        plain = module.with_suffix("")
        run(["zstd", "--quiet", "--force", "--decompress", module, "-o", plain])
        return plain.read_bytes()
    return module.read_bytes()


def _depends(module: bytes) -> Iterator[str]:
    """Return the dependencies of a module, from its section .modinfo."""
    result = re.search(rb"\0depends=([^\0]*)\0", module)
    return (part for part in (result[1].decode() if result else "").split(",") if part)


def archive(files: Mapping[str, bytes]) -> bytes:
    """Executable files as an archive that the kernel unpacks (cpio, "newc"), with the folders that they need."""
    folders = sorted({str(parent) for path in files for parent in Path(path).parents if str(parent) != "."})
    entries = [(folder, 0o40755, b"") for folder in (*folders, "dev", "proc", "sys", "host") if folder]
    entries += [(path, 0o100755, content) for path, content in files.items()]
    entries.append(("TRAILER!!!", 0, b""))
    return b"".join(_entry(number, *entry) for number, entry in enumerate(entries, start=1))


def _entry(number: int, path: str, mode: int, content: bytes) -> bytes:
    name = path.encode() + b"\0"
    fields = (number, mode, 0, 0, 1, 0, len(content), 0, 0, 0, 0, len(name), 0)
    head = b"070701" + b"".join(b"%08x" % field for field in fields) + name
    return head + b"\0" * (-len(head) % 4) + content + b"\0" * (-len(content) % 4)


@dataclass(frozen=True, slots=True)
class Program:
    """The script that runs in the guest, as root."""

    argv: Sequence[str | Path]  # the program and its arguments; paths as on this machine, results under `OUT`
    environment: Mapping[str, str] = field(default_factory=dict)  # its whole environment, beside PATH, HOME and TMPDIR
    directory: Path = Path("/")  # where it runs
    files: Mapping[str, str] = field(default_factory=dict)  # contents of files that it finds under `OUT`, by name


@contextmanager
def booted(kernel: GuestKernel, program: Program, timeout_seconds: float) -> Iterator[Path]:
    """Run a program in a guest to its end; yields the folder with its results, which goes away afterwards.

    Its output is in the folder as `output`, the kernel's as `guest.log`.
    """
    with tempfile.TemporaryDirectory(prefix="headroom-guest-") as name:
        folder = Path(name)
        _write_program(folder / "run", program)
        for file, content in program.files.items():
            (folder / file).write_text(content)
        with Supervisor(folder) as supervisor:
            guest = supervisor.start(CONSOLE, _command(kernel, folder))
            deadline = time.monotonic() + timeout_seconds
            while guest.running:
                if time.monotonic() > deadline:
                    raise DevClusterError(f"the guest took longer than {timeout_seconds:.0f} s:\n{_said(folder)}")
                time.sleep(PAUSE_SECONDS)
        code = folder / "exit-code"
        if not code.exists() or code.read_text().strip() != "0":
            how = f"ended with {code.read_text().strip()}" if code.exists() else "did not run to its end"
            raise DevClusterError(f"the guest's program {how}:\n{_said(folder)}")
        yield folder


def _write_program(file: Path, program: Program) -> None:
    names = {
        "PATH": "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin",
        "HOME": str(SCRATCH),
        "TMPDIR": str(SCRATCH),
        **program.environment,
    }
    words = " ".join(shlex.quote(str(word)) for word in ("env", "-i", *(f"{k}={v}" for k, v in names.items())))
    argv = " ".join(shlex.quote(str(word)) for word in program.argv)
    line = f"cd {shlex.quote(str(program.directory))} && exec {words} {argv} >{OUT}/output 2>&1"
    file.write_text(f"#!/bin/sh\n{line}\n")
    file.chmod(0o755)


def _command(kernel: GuestKernel, out: Path) -> list[str]:
    share = "security_model=none,multidevs=remap"
    return [
        *(QEMU, "-accel", "tcg,thread=multi", "-cpu", "max", "-smp", str(CPUS), "-m", str(MEMORY_MIB), "-no-reboot"),
        *("-display", "none", "-monitor", "none", "-serial", "stdio", "-nic", "none"),
        *("-kernel", str(kernel.image), "-initrd", str(kernel.initramfs), "-append", KERNEL_ARGUMENTS),
        *("-virtfs", f"local,path=/,mount_tag=root,readonly=on,{share}"),
        *("-virtfs", f"local,path={out},mount_tag=out,{share}"),
    ]


def _said(folder: Path) -> str:
    return "\n".join(text for name in ("guest.log", "output") if (text := last_lines(folder / name, 25)))
