from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_chart_crds_are_ours() -> None:
    """The chart ships the very CRDs of `crds/`; after a change: cp crds/*.yaml charts/headroom/crds/."""
    ours = {path.name: path.read_bytes() for path in (ROOT / "crds").glob("*.yaml")}
    shipped = {path.name: path.read_bytes() for path in (ROOT / "charts/headroom/crds").glob("*.yaml")}
    assert ours
    assert shipped == ours
