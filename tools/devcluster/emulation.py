"""Lets this kernel run programs of another machine, with qemu's user emulation, for building images."""

import os
import platform
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from tools.devcluster.commands import DevClusterError, MissingRequirementError, run
from tools.devcluster.packages import Package, install_packages

HANDLERS = Path("/proc/sys/fs/binfmt_misc")
NAME = "headroom-{}"
QEMU = Package("qemu-user-static", "programs of other machines", ("qemu-aarch64-static",))
_HEAD = r"\x7fELF\x02\x01\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00\x02\x00"
_MASK = r"\xff\xff\xff\xff\xff\xff\xff\x00\xff\xff\xff\xff\xff\xff\xff\xff\xfe\xff\xff\xff"
MACHINES = {"aarch64": r"\xb7\x00", "x86_64": r"\x3e\x00"}
"""Machine -> its number in the header of an ELF file, least significant byte first."""

Say = Callable[[str], None]


@contextmanager
def running(machine: str, say: Say = print) -> Iterator[None]:
    """Run programs of this machine, as `platform.machine()` names it, while the block runs.

    A handler that the system has is used; ours is removed at the end.
    """
    if machine == platform.machine() or (HANDLERS / f"qemu-{machine}").exists():
        yield
        return
    if os.geteuid() != 0:
        raise MissingRequirementError(f"building images for {machine} needs root on Linux: run it with sudo")
    if not QEMU.present:
        install_packages([QEMU], say)
    if not (HANDLERS / "register").exists():
        run(["mount", "-t", "binfmt_misc", "binfmt_misc", HANDLERS])
    handler = HANDLERS / NAME.format(machine)
    # F: the kernel opens the interpreter now, so it works in every root.
    line = ":".join(
        ("", handler.name, "M", "", _HEAD + MACHINES[machine], _MASK, f"/usr/bin/qemu-{machine}-static", "F")
    )
    try:
        if not handler.exists():
            (HANDLERS / "register").write_text(line)
    except OSError as error:
        raise DevClusterError(f"the kernel runs no programs of {machine} ({error}): build on such a machine") from error
    try:
        yield
    finally:
        handler.write_text("-1")
