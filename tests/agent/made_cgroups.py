"""A cgroup tree without a kernel behind it."""

from pathlib import Path

from agent.host.cgroup import CgroupTree, Hierarchy, Layout


class Tree:
    def __init__(self, root: Path) -> None:
        self._folder = root / "kubepods"
        self._folder.mkdir(parents=True)
        here = Hierarchy(root, 2)
        self.cgroups = CgroupTree(Layout(here, here, here))
        self.cgroups.locate()

    def has(self, *uids: str) -> None:
        for folder in self._folder.iterdir():
            folder.rmdir()
        for uid in uids:
            (self._folder / f"pod{uid}").mkdir()
