"""Cells of a plan: models × data sets × tasks."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from pydantic import JsonValue

from skymark.model.errors import DataError, UsageError
from skymark.model.machine import Platform
from skymark.model.plan import PlannedCell
from skymark.model.record import Cause, Cell, Setting, Status
from skymark.suites.clip.datasets.choosing import ChosenSet
from skymark.suites.clip.datasets.local import DataSet
from skymark.suites.clip.guess import guess
from skymark.suites.clip.models.choosing import (
    NO_CAPTIONS,
    SHORT_DIGEST,
    ChosenModel,
    lacks_captions,
)
from skymark.suites.clip.names import SUITE
from skymark.suites.clip.options import ENGLISH, ClipOptions, ClipSettings
from skymark.suites.clip.reading.samples import SKIP, real_path
from skymark.suites.clip.reading.user_files import Naming, Prompting
from skymark.suites.clip.specification import (
    CAPTIONING,
    ClipSpecification,
    FileEntry,
    Model,
    Precision,
    Task,
)

PROMPTED: Task = "zeroshot_classification"


@dataclass(frozen=True)
class TaskOnData:
    """A task on a data set in a language, for any model."""

    dataset: DataSet
    specification: ClipSpecification
    """Of the first model."""
    content: dict[str, JsonValue]
    """The specification in a cell's form; each model replaces the first."""

    @property
    def notes(self) -> tuple[str, ...]:
        """Assumptions about the data and the task."""
        told = []
        if self.specification.skip_damaged:
            told.append(
                "--skip-damaged leaves damaged elements out; the table and the record count them"
            )
        if self.specification.task == CAPTIONING:
            told.append("captioning has no SPICE, whose scorer downloads code without a checksum")
        return tuple(f"{self.dataset.name}: {one}" for one in told)


class OwnTexts(NamedTuple):
    """The user's own prompts and class names, which replace the data sets'."""

    prompting: Prompting | None
    naming: Naming | None

    def of(self, dataset: DataSet, language: str) -> tuple[FileEntry | None, FileEntry | None]:
        """Return a data set's entries of prompts and of class names, None without a file.

        Raises:
            DataError: a file has none for it, another number of names than its classes, or no
                prompts for a class whose name is known here.
        """
        files = (self.prompting, self.naming)
        prompts, names = (None if file is None else file.entry_for(dataset.name) for file in files)
        scored = dataset.names if language == ENGLISH else ()
        if self.naming is not None and names is not None:
            scored = self.naming.names(names.entry, dataset.classes)
        if self.prompting is not None and prompts is not None and scored:
            self.prompting.prompts(prompts.entry, scored)
        return prompts, names


def planned_cells(
    models: Sequence[ChosenModel],
    sets: Sequence[ChosenSet],
    options: ClipOptions,
    settings: ClipSettings,
    platform: Platform,
) -> list[PlannedCell]:
    """Plan the cells, model by model: a model's cells share a process and a machine.

    Raises:
        UsageError: no data set has a language, two cells would share a file, or a file of prompts
            or class names does not fit.
    """
    require_languages(sets, options.languages)
    texts = own_texts(options, sets)
    works = [
        work_of(models[0].model, chosen.dataset, task, language, options, settings, texts)
        for chosen in sets
        for task in chosen.tasks
        for language in languages_of(chosen, options.languages)
    ]
    shown, features = settings.differing(platform), options.features_directory
    found = [
        planned
        for model in models
        for planned in cells_of_model(model, works, shown, platform, features)
    ]
    require_own_files(found)
    return found


def languages_of(chosen: ChosenSet, wanted: Sequence[str]) -> list[str]:
    """Return the wanted languages that a data set has."""
    return [one for one in dict.fromkeys(wanted) if one in chosen.dataset.languages]


def require_languages(sets: Sequence[ChosenSet], wanted: Sequence[str]) -> None:
    """Refuse a language that no data set has.

    Raises:
        UsageError: a data set has no wanted language, or a language belongs to no data set.
    """
    for chosen in sets:
        if not languages_of(chosen, wanted):
            dataset = chosen.dataset
            raise UsageError(
                f"{dataset.name} is not in {' or '.join(wanted)}, but in "
                f"{', '.join(dataset.languages)}; give other --languages, or leave it out"
            )
    for language in wanted:
        if not any(language in one.dataset.languages for one in sets):
            raise UsageError(
                f"none of these data sets is in the language {language!r}; leave it out"
            )


def own_texts(options: ClipOptions, sets: Sequence[ChosenSet]) -> OwnTexts:
    """Read the user's files of prompts and class names.

    Raises:
        UsageError: a file cannot be read, no data set uses it, or it would serve several languages.
    """
    given = {"--template-file": options.template_file, "--classname-file": options.classname_file}
    for option, file in given.items():
        if file is not None and not any(PROMPTED in one.tasks for one in sets):
            raise UsageError(
                f"none of these data sets is classified by prompts such as those in {file}; leave "
                f"{option} out"
            )
    templates, names = (None if file is None else real_path(Path(file)) for file in given.values())
    for one in sets if names is not None else ():
        languages = languages_of(one, options.languages)
        if PROMPTED in one.tasks and len(languages) > 1:
            raise UsageError(
                f"the class names in {names} are in one language, and {one.dataset.name} would be "
                f"scored in {' and '.join(languages)}; choose one language with --languages"
            )
    return OwnTexts(
        prompting=None if templates is None else Prompting(templates),
        naming=None if names is None else Naming(names),
    )


def work_of(
    model: Model,
    dataset: DataSet,
    task: Task,
    language: str,
    options: ClipOptions,
    settings: ClipSettings,
    texts: OwnTexts,
) -> TaskOnData:
    """Specify a task on a data set.

    Raises:
        DataError: a file lacks its prompts or class names, or has other classes, or an element is
            damaged.
    """
    if dataset.damaged and not options.skip_damaged:
        raise DataError(f"{dataset.damaged[0]}; {SKIP}")
    prompted = task == PROMPTED
    prompts, names = texts.of(dataset, language) if prompted else (None, None)
    specification = ClipSpecification(
        model=model,
        source=dataset.source,
        task=task,
        split=options.test_split,
        language=language,
        prompt_file=prompts,
        name_file=names,
        precision=precision_of(task, settings),
        batch_size=settings.batch_size,
        compile=settings.compile,
        channels_last=settings.channels_last,
        drop_text_tail=settings.drops_text_tail,
        recall_k=options.recall_k,
        linear_probe=settings.probe if task == "linear_probe" else None,
        seed=options.seed,
        skip_damaged=options.skip_damaged,
        limit=options.limit,
        group_column=dataset.group_column if prompted else None,
        figure=dataset.figure if prompted else None,
    )
    return TaskOnData(dataset, specification, specification.json_content())


def precision_of(task: Task, settings: ClipSettings) -> Precision:
    """Return a cell's precision: clip_benchmark writes captions in fp32, with ``--amp``, too.

    Raises:
        UsageError: captions would be written in half precision.
    """
    if task != CAPTIONING:
        return settings.precision
    if settings.precision in {"bf16", "fp16"}:
        raise UsageError(
            f"captions are written in fp32, and --precision is {settings.precision}; leave it out, "
            "or score captioning in a run of its own"
        )
    return "fp32"


def cells_of_model(
    model: ChosenModel,
    works: Sequence[TaskOnData],
    settings: Mapping[str, Setting],
    platform: Platform,
    features: str | None,
) -> Iterator[PlannedCell]:
    """Yield a model's cells with their group, local files and expected time."""
    key, refusal = group_of(model.model), None
    if lacks_captions(model.model):
        cause = Cause(kind="no-captions", message=f"{model.name} {NO_CAPTIONS}")
        refusal = (Status.UNSUPPORTED, cause)
    own = {"model": model.model.model_dump(mode="json")}
    for work in works:
        texts = (work.specification.prompt_file, work.specification.name_file)
        writes = work.specification.task == CAPTIONING
        refused = refusal if writes else None
        own_files = (*model.model.files, *(one.path for one in texts if one is not None))
        yield PlannedCell(
            cell=Cell(
                suite=SUITE,
                scenario=work.dataset.name,
                variant=work.specification.task,
                adapter=model.name,
                axes=axes_of(work.specification),
                settings=dict(settings),
                specification={**work.content, **own},
                reuse=None if writes else features,
            ),
            group=f"{key} captions" if writes else key,  # another venv, so another process
            shard_key=key,
            guess=guess(work.specification, work.dataset, model.sizes, platform),
            local_files=(*work.dataset.local_files, *own_files),
            data=work.dataset.taken,
            refusal=refused,
            notes=(*model.notes, *work.notes) if refused is None else (refused[1].message,),
        )


def axes_of(specification: ClipSpecification) -> dict[str, Setting]:
    """Return the axes of a cell: its limit, its language and the user's own texts."""
    found: dict[str, Setting] = {}
    if specification.limit is not None:
        found["limit"] = specification.limit
    if specification.language != ENGLISH:
        found["language"] = specification.language
    files = {"prompts": specification.prompt_file, "classnames": specification.name_file}
    for axis, file in files.items():
        if file is not None:
            found[axis] = f"{Path(file.path).stem}@{file.sha256[:SHORT_DIGEST]}"
    return found


def group_of(model: Model) -> str:
    """Return the name of a model's group: one process runs all its data sets and tasks."""
    weights = model.weights
    return f"{model.architecture}:{weights.tag or weights.hub or weights.sha256}"


def require_own_files(planned: Sequence[PlannedCell]) -> None:
    """Refuse cells whose results would share a file.

    Raises:
        UsageError: two names differ only in characters that file names cannot have.
    """
    seen: dict[str, Cell] = {}
    for one in planned:
        other = seen.setdefault(one.cell.id, one.cell)
        if other is not one.cell:
            raise UsageError(
                f"{other.scenario} and {one.cell.scenario} on {one.cell.adapter} would share a "
                "file; rename a directory, or score them in two runs"
            )
