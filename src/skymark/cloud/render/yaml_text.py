"""Manifests as YAML, with a comment that says how they were made."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

WIDTH = 100


def yaml_text(manifest: Mapping[str, Any], comments: Sequence[str]) -> str:
    """Return a manifest as YAML, its keys in their order, with lines of comment above.

    Texts of several lines, such as scripts, stay as they are.
    """
    import yaml

    class Dumper(yaml.SafeDumper):  # type: ignore[misc]  # PyYAML has no types
        pass

    def text_node(dumper: Any, text: str) -> Any:
        style = "|" if "\n" in text else None
        return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)

    Dumper.add_representer(str, text_node)
    body = yaml.dump(
        dict(manifest), Dumper=Dumper, sort_keys=False, allow_unicode=True, width=WIDTH
    )
    return "".join(f"# {line}\n" for line in comments) + str(body)
