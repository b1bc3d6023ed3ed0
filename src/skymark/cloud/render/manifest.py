"""Manifests in YAML: comments above, and a site's own fields merged in."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

from skymark.cloud.machine_script import plan_file
from skymark.cloud.rented_run import RentedRun
from skymark.cloud.sky.tasks import make_task, send_files, set_limits
from skymark.model.errors import UsageError
from skymark.model.plan import Plan

WIDTH = 100
EACH = "*"
"""Key of a site's mapping, or name of its list's entry, that stands for every entry."""


def comment(lines: Sequence[str]) -> str:
    """Return lines as a comment of YAML and of the shell.

    Raises:
        UsageError: a line has a line break, behind which it would be no comment any more.
    """
    for line in lines:
        if not line.isprintable():
            raise UsageError(
                f"{line!r} has a line break or another control character, which no job file can "
                "have; rename the file or directory"
            )
    return "".join(f"# {line}\n" for line in lines)


def yaml_text(manifest: Mapping[str, Any], comments: Sequence[str]) -> str:
    """Return a manifest as YAML, with its order of keys, and comment lines above.

    Multi-line texts, such as scripts, stay readable.
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
    return comment(comments) + str(body)


def read_template(path: Path) -> dict[str, Any]:
    """Read a site's own part of a manifest.

    Raises:
        UsageError: the file cannot be read, or is no mapping in YAML.
    """
    import yaml

    try:
        found = yaml.safe_load(path.read_text("utf-8"))
    except (OSError, ValueError, yaml.YAMLError) as error:
        raise UsageError(
            f"--template {path}: {error}; give a part of a manifest, in YAML"
        ) from error
    if not isinstance(found, dict):
        raise UsageError(f"--template {path} holds no fields; give a part of a manifest, in YAML")
    return found


def merged(
    made: Mapping[str, Any], site: Mapping[str, Any], own: Collection[str], at: str = ""
) -> dict[str, Any]:
    """Return a manifest with a site's fields merged in, which count more.

    Mappings are merged key by key, and lists whose entries have a ``name`` by that name; an entry
    without a name, or named `EACH`, goes into every one. Other lists are joined.

    Args:
        made: the manifest.
        site: the same fields, as many as the site sets.
        own: fields that the split decides, which a site cannot set to another value.
        at: path of both in the manifest, for messages.

    Raises:
        UsageError: the site sets such a field, or a list or mapping to something else.
    """
    found = dict(made)
    for key, value in site.items():
        if key == EACH:
            for one in made:
                found[one] = _merged(found[one], value, own, f"{at}{one}")
        elif key in found:
            found[key] = _merged(found[key], value, own, f"{at}{key}")
        else:
            found[key] = value
    return found


def _merged(made: Any, site: Any, own: Collection[str], at: str) -> Any:
    field = at.rpartition(".")[2]
    if field in own and site != made:
        raise UsageError(
            f"--template sets {at} to {site!r}, which --split and the run decide; leave it out"
        )
    if isinstance(made, dict) and isinstance(site, dict):
        return merged(made, site, own, f"{at}.")
    if isinstance(made, list) and isinstance(site, list):
        return _joined(made, site, own, at)
    if isinstance(made, dict | list) or isinstance(site, dict | list):
        raise UsageError(
            f"--template sets {at} to {site!r}, and it is {made!r}; give the same kind of value"
        )
    return site


def _joined(made: list[Any], site: list[Any], own: Collection[str], at: str) -> list[Any]:
    if not all(isinstance(one, dict) and "name" in one for one in made):
        return made if site == made else [*made, *site]
    found = {one["name"]: one for one in made}
    for entry in site:
        name = entry.get("name", EACH) if isinstance(entry, dict) else None
        if not isinstance(name, str):
            raise UsageError(f"--template: {entry!r} is no entry of {at}; give fields with a name")
        fields = {key: value for key, value in entry.items() if key != "name"}
        for one in list(found) if name == EACH else [name]:
            found[one] = _merged(found[one], fields, own, f"{at}.{one}") if one in found else entry
    return list(found.values())


def sky_text(run: RentedRun, plan: Plan, plan_path: Path) -> str:
    """Return the YAML of a run, without secrets.

    Args:
        run: with its machine.
        plan: its cells.
        plan_path: its file, which SkyPilot sends along.

    Raises:
        UsageError: the machine's YAML is wrong, or its machine is not to be had as requested.
    """
    task = make_task(run)
    set_limits(task, run.limits.deadline_s, None)
    send_files(task, {plan_file(run.run_id): plan_path.absolute()})
    fields = {name: value for name, value in task.to_yaml_config().items() if value}
    fields.pop("_user_specified_yaml", None)  # SkyPilot's note of the file that it was made from
    return yaml_text(
        fields,
        [
            f"The job that `skymark launch {run.profile}` starts: {len(plan.runnable)} cells",
            f"Results: ~/results/{run.run_id} on the machine; `skymark launch` brings them home",
            "and ends the machine, `sky launch FILE.yaml --down` does the latter alone.",
            "Secrets are not in here: add --secret NAME for each to `sky launch`.",
        ],
    )
