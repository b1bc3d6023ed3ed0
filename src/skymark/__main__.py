"""``python -m skymark`` is the `skymark` command."""

from skymark.cli.main import entry_point

if __name__ == "__main__":
    entry_point()
