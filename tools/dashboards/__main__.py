"""`python -m tools.dashboards`: write every dashboard into the chart."""

from tools.dashboards import FOLDER, files


def main() -> None:
    """Write the files, and take away those that are no dashboard any more."""
    wanted = files()
    FOLDER.mkdir(exist_ok=True)
    for path in FOLDER.glob("*.json"):
        if path.name not in wanted:
            path.unlink()
    for name, text in wanted.items():
        (FOLDER / name).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
