"""Scenarios and campaigns from what a caller has: names, files, TOML, dicts, words."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypedDict, Union, cast

from . import _narrows
from ._errors import Refused
from ._narrows import Scenario

#: A file, an entry of the catalogue, the text of a file, or its contents.
Source = Union[str, "os.PathLike[str]", Mapping[str, Any]]
#: Values by their names, as after ``--set``.
Sets = Union[Mapping[str, object], Iterable[str], None]
#: Words, one or several.
Words = Union[str, Iterable[str]]


class Campaign(TypedDict):
    """What the module makes a campaign of."""

    name: str
    text: str | None
    sets: list[str]
    only: list[str]


def words(given: Words) -> list[str]:
    return [given] if isinstance(given, str) else [str(word) for word in given]


def sets(given: Sets) -> list[str]:
    if given is None:
        return []
    if isinstance(given, Mapping):
        by_name = cast("Mapping[str, object]", given)
        return [f"{name}={in_words(value)}" for name, value in by_name.items()]
    return words(given)


def in_words(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (list, tuple)):
        several: list[Any] = list(cast("Sequence[Any]", value))
        return toml_of({"v": several}).removeprefix("v = ").strip()
    return str(value)


def toml_of(document: Mapping[str, Any]) -> str:
    try:
        return _narrows.toml_of_json(json.dumps(document, allow_nan=False))
    except (TypeError, ValueError) as error:
        allowed = "what TOML can hold: strings, numbers, booleans, lists and dicts"
        raise Refused(
            f"scenario: found {error}; allowed: {allowed}",
            key="scenario",
            found=str(error),
            allowed=allowed,
        ) from None


def text_and_name(source: Source, what: str) -> tuple[str | None, str]:
    """The text of a file, if it is one, and its name."""
    if isinstance(source, Mapping):
        document = {"version": 1, "name": what, **source}
        return toml_of(document), f"{document['name']}.toml"
    if not isinstance(source, str):
        return None, os.fspath(source)
    if "\n" in source or "=" in source:
        return source, f"{what}.toml"
    return None, source


def scenario(
    source: Source | Scenario | None = None,
    *,
    links: Words = (),
    flows: Words = (),
    apps: Words = (),
    test: str | None = None,
    set: Sets = None,
    seed: int | None = None,
) -> Scenario:
    """A checked scenario.

    ``source`` is a file, an entry of the catalogue, TOML, or a dict of the same shape. In its
    place ``links``, ``flows``, ``apps`` and ``test`` are what stands after ``--link``,
    ``--flow``, ``--app`` and ``--test`` of ``narrows run``. ``set`` has values by name.
    """
    more = sets(set)
    if seed is not None:
        more.append(f"seed={seed}")
    link_words, flow_words, app_words = words(links), words(flows), words(apps)
    if source is None:
        return Scenario.of_words(link_words, flow_words, app_words, test, more)
    if link_words or flow_words or app_words or test is not None:
        raise Refused(
            "scenario: found a scenario and words of links, flows, applications or a test; "
            "allowed: one of both",
            key="scenario",
            found="a scenario and words",
            allowed="one of both",
        )
    if isinstance(source, Scenario):
        return Scenario.of_text(source.name, source.toml(), more) if more else source
    text, name = text_and_name(source, "scenario")
    if text is None:
        return Scenario.named(name, more)
    return Scenario.of_text(name, text, more)


def campaign(source: Source, *, set: Sets = None, only: Words = ()) -> Campaign:
    if isinstance(source, Mapping):
        source = {"kind": "campaign", **source}
    text, name = text_and_name(source, "campaign")
    return {"name": name, "text": text, "sets": sets(set), "only": words(only)}


def grid_document(
    base: Scenario,
    grid: Mapping[str, Sequence[object]],
    *,
    name: str,
    set: Mapping[str, str],
    metrics: Mapping[str, str],
) -> dict[str, Any]:
    """A campaign whose axes are those of ``grid``.

    An axis is a value of the scenario by its name, or a word that ``set`` has in braces.
    """
    if not grid:
        raise Refused(
            "grid: found no axis; allowed: a dict with the values of each axis",
            key="grid",
            found="no axis",
            allowed="a dict with the values of each axis",
        )
    axes: dict[str, dict[str, dict[str, str]]] = {}
    assigned: dict[str, str] = dict(set)
    for key, values in grid.items():
        given = [in_words(value) for value in ([values] if isinstance(values, str) else values)]
        axis = _axis_name(key, axes)
        # An axis itself stands for the name of its value, which is a folder's, too.
        word = f"{axis}_is"
        here = "{" + key + "}"
        if any(here in template for template in set.values()):
            assigned = {at: text.replace(here, "{" + word + "}") for at, text in assigned.items()}
        else:
            assigned[key] = "{" + word + "}"
        axes[axis] = {label: {word: value} for label, value in _labels(given).items()}
    document: dict[str, Any] = {
        "version": 1,
        "kind": "campaign",
        "name": name,
        "cell": "/".join("{" + axis + "}" for axis in axes),
        "set": assigned,
    }
    if metrics:
        document["metric"] = dict(metrics)
    document["scenario"] = json.loads(_narrows.json_of_toml(base.toml()))
    for part in ("version", "name"):
        document["scenario"].pop(part, None)
    document["axis"] = axes
    return document


def _axis_name(key: str, taken: Mapping[str, object]) -> str:
    stem = key.rsplit("/", 1)[-1]
    stem = "".join(c if c.isalnum() and c.isascii() else "_" for c in stem) or "axis"
    name, n = stem, 2
    while name in taken:
        name, n = f"{stem}_{n}", n + 1
    return name


def _labels(values: Sequence[str]) -> dict[str, str]:
    """The values by names that cells may have."""
    labels: dict[str, str] = {}
    for value in values:
        kept = "".join(c if (c.isalnum() and c.isascii()) or c in "_-.,()=" else "-" for c in value)
        stem = kept.strip("-") or "empty"
        label, n = stem, 2
        while label in labels:
            label, n = f"{stem}-{n}", n + 1
        labels[label] = value
    return labels
