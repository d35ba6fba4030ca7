"""The image store that nodes start from: shared by hard links, kept by content."""

from pathlib import Path

import pytest

from tools.devcluster import seeds
from tools.devcluster.binaries import Binaries
from tools.devcluster.oci import Layout, write_program_image


def _image(folder: Path, name: str, content: bytes) -> Layout:
    folder.mkdir()
    (folder / "program").write_bytes(content)
    return write_program_image(folder / "layout", name, folder / "program", "/program")


def test_key_follows_the_images(tmp_path: Path) -> None:
    """Names, contents and containerd decide which store fits; the order of the images does not."""
    a, b = _image(tmp_path / "a", "localhost/a:dev", b"a"), _image(tmp_path / "b", "localhost/b:dev", b"b")
    other = _image(tmp_path / "c", "localhost/a:dev", b"c")
    here, there = (Binaries({"containerd": Path(folder, "containerd")}) for folder in ("/here", "/there"))
    assert seeds.key([a, b], here) == seeds.key([b, a], here)
    assert len({seeds.key(images, here) for images in ([a], [a, b], [other, b])} | {seeds.key([a], there)}) == 4


def test_databases_are_not_shared(tmp_path: Path) -> None:
    """Layers are shared with the store, and databases, which containerd writes in place, are not."""
    source, target = tmp_path / "source", tmp_path / "target"
    (source / "io.containerd.metadata.v1.bolt").mkdir(parents=True)
    (source / "io.containerd.content.v1.content").mkdir()
    (source / "io.containerd.metadata.v1.bolt" / "meta.db").write_text("state")
    (source / "io.containerd.content.v1.content" / "blob").write_text("layer")
    seeds.copy(source, target)
    with (target / "io.containerd.metadata.v1.bolt" / "meta.db").open("r+") as file:
        file.write("other")
    assert (source / "io.containerd.metadata.v1.bolt" / "meta.db").read_text() == "state"
    assert (source / "io.containerd.content.v1.content" / "blob").stat().st_nlink == 2


@pytest.mark.node
def test_every_database_is_found(real_node_requirements: None) -> None:  # noqa: ARG001 - it skips
    """No database of a real containerd lies where the copy would share it."""
    for seed in seeds.seeds_directory().glob(f"*/{seeds.CONTENTS}"):
        root = seed.with_name("containerd")
        everywhere = {path for path in root.rglob("*.db") if "snapshots" not in path.relative_to(root).parts}
        assert everywhere == set(root.glob("io.containerd.*/*.db"))
