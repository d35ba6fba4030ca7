"""The guest's kernel: modules in the order that they need, an archive that the kernel unpacks, missing parts named."""

import lzma
import platform
from pathlib import Path

import pytest

from tools.devcluster import guest_kernel
from tools.devcluster.errors import DevClusterError, MissingRequirementError
from tools.devcluster.guest import Program, booted
from tools.devcluster.guest_kernel import GuestKernel, archive, load_order
from tools.devcluster.packages import Package


def _module(name: str, *needs: str) -> bytes:
    return b"\x7fELF\0license=GPL\0depends=" + ",".join(needs).encode() + b"\0name=" + name.encode() + b"\0"


def test_modules_follow_their_needs() -> None:
    """What a module needs is loaded before it, once; built-in modules are not loaded."""
    modules = {
        "9p": _module("9p", "9pnet", "netfs"),
        "9pnet": _module("9pnet"),
        "netfs": b"",
        "9pnet_virtio": _module("9pnet_virtio", "9pnet", "virtio-ring"),
        "virtio_ring": _module("virtio_ring"),
    }
    assert list(load_order(modules, ("9pnet_virtio", "9p"))) == ["9pnet", "virtio_ring", "9pnet_virtio", "9p"]


def test_compressed_modules_are_unpacked(tmp_path: Path) -> None:
    """A module that the distribution compresses is loaded as it was before."""
    file = tmp_path / "9p.ko.xz"
    file.write_bytes(lzma.compress(_module("9p")))
    assert load_order({"9p": file}, ("9p",)) == {"9p": _module("9p")}


def test_missing_module_is_named() -> None:
    """A kernel without 9p, as those for clouds are, is refused with the reason."""
    with pytest.raises(DevClusterError, match="no module 9p: the flavours for clouds lack 9p"):
        load_order({}, ("9p",))


def test_archive_is_aligned() -> None:
    """Headers and contents begin at multiples of four bytes, as the kernel wants them."""
    packed = archive({"a": b"12345"})
    assert len(packed) % 4 == 0
    assert packed.index(b"12345") % 4 == 0
    assert packed.count(b"070701") == 6  # dev, proc, sys, host, the file, the end


def test_missing_programs_are_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Where qemu can neither be found nor installed, the message names the package."""
    monkeypatch.setattr(guest_kernel, "PACKAGES", (Package("qemu-system-x86", "runs the guest", ("no-such-qemu",)),))
    monkeypatch.setattr("tools.devcluster.packages.shutil.which", lambda *_, **__: None)
    monkeypatch.setattr(platform, "machine", lambda: "x86_64")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    with pytest.raises(MissingRequirementError, match="qemu-system-x86"):
        guest_kernel.find_or_make(print)


def test_other_machines_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """On another architecture there is no guest, and the message says which one it is."""
    monkeypatch.setattr(platform, "machine", lambda: "riscv64")
    with pytest.raises(MissingRequirementError, match="riscv64"):
        guest_kernel.find_or_make(print)


def test_cached_kernel_needs_nothing(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A kernel in the cache is used as it is, without a network."""
    monkeypatch.setattr(guest_kernel, "PACKAGES", ())
    monkeypatch.setattr(platform, "machine", lambda: "x86_64")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(guest_kernel, "_download", lambda *_: pytest.fail("something was downloaded"))
    folder = tmp_path / "headroom/guest" / f"6.1.0-50-amd64-{guest_kernel._key()}"
    folder.mkdir(parents=True)
    found = guest_kernel.find_or_make(print)
    assert (found.release, found.image.parent) == ("6.1.0-50-amd64", folder)


def test_dead_guest_is_told(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A guest that does not come to its end is an error with the end of what it said."""
    qemu = tmp_path / "qemu-system-x86_64"
    qemu.write_text("#!/bin/sh\necho no such machine\nexit 1\n")
    qemu.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    kernel = GuestKernel("6.1", tmp_path / "vmlinuz", tmp_path / "initramfs")
    with (
        pytest.raises(DevClusterError, match=r"did not run to its end:\n    no such machine"),
        booted(kernel, Program(["true"]), 10.0),
    ):
        pass
