"""A guest: a virtual machine with a kernel of its own, pure cgroup v2, that sees this machine's files read-only.

Runs under software emulation, without rights and without a network; it ends with its program, at the latest with us.
"""

import shlex
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from tools.devcluster.errors import DevClusterError
from tools.devcluster.guest_kernel import QEMU, GuestKernel
from tools.devcluster.process import Supervisor, last_lines

CPUS = 2
MEMORY_MIB = 1024
OUT = Path("/run/out")  # where the guest sees the folder for its results
SCRATCH = Path("/run/tmp")  # a folder of the guest's own, in memory
KERNEL_ARGUMENTS = "console=ttyS0 panic=-1 quiet mitigations=off cgroup_no_v1=all psi=1"
PAUSE_SECONDS = 0.2
CONSOLE = "guest"

Say = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Program:
    """What runs in the guest, as root."""

    argv: Sequence[str | Path]  # the program and its arguments; paths as on this machine, results under `OUT`
    environment: Mapping[str, str] = field(default_factory=dict)  # its whole environment, beside PATH, HOME and TMPDIR
    directory: Path = Path("/")  # where it runs
    files: Mapping[str, str] = field(default_factory=dict)  # contents of files that it finds under `OUT`, by name


@contextmanager
def booted(kernel: GuestKernel, program: Program, timeout_seconds: float) -> Iterator[Path]:
    """Run a program in a guest to its end; yields the folder with its results, which goes away afterwards.

    What it prints is in the folder as `output`, what the kernel said as `guest.log`.
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
