"""What a study asks: the file that a person writes, checked before anything runs.

    table: pool
    detector: embedding_mlp
    embedding: lfcc_stats
    protocols:
      logo: {min_spoof: 20, groups: {hifigan: [hifigan-v1, hifigan-v2]}}
      loso:
    methods:
      - naive
      - random
      - {method: doss, ratio: 2}
      - {name: weight_100, method: doss_weight, alpha: 1, cap: 100, budgets: [all]}
      - {method: diversity, num_sources: [1, 2, 4], num_generators: [2, 4, 8], budgets: [200]}
    budgets: [600, all]
    seeds: 5
    training: {num_steps: 300}

The last of these is a grid for scaling laws: a method of one name for each pair of numbers.
A key that nothing reads is refused with the nearest that something does.
"""

from __future__ import annotations

import inspect
import itertools
import os
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any, Final, Literal, TypeAlias, cast

from curation.probe.training import TrainingSettings
from curation.selection import Selector, select, weigh
from curation.selection.asked import method_of
from curation.selection.orders import OrderOptions
from curation.study.results import PROTOCOLS, Protocol, parameters_text
from datalake import plugins
from datalake.config import read_mapping
from datalake.errors import ConfigError, nearest

__all__ = ["ALL", "ORDER_OPTIONS", "Method", "ProtocolPlan", "StudyDesign", "Verb", "read_design"]

Verb: TypeAlias = Literal["select", "weigh", "dedup", "subset"]

ALL: Final = "all"
"""The budget of a method that may take all rows of the training side."""


@dataclass(frozen=True)
class _Known:
    """A method by its short name."""

    verb: Verb
    plugin: str
    defaults: Mapping[str, Any] = field(default_factory=dict)


_METHODS: Final[Mapping[str, _Known]] = {
    "naive": _Known("select", "naive"),
    "random": _Known("select", "random"),
    "doss": _Known("select", "doss"),
    "doss_weight": _Known("weigh", "doss", {"alpha": 0.5}),
    "temperature": _Known("weigh", "temperature", {"alpha": 0.5}),
    "class_balanced": _Known("weigh", "class_balanced"),
    "semdedup": _Known("dedup", "semdedup"),
    "dedup": _Known("dedup", "cover"),
    "diversity": _Known("subset", "diversity"),
}
_GROUPS: Final[Mapping[Verb, str]] = {
    "select": "datalake.selectors",
    "weigh": "datalake.weighters",
}
ORDER_OPTIONS: Final = frozenset(each.name for each in fields(OrderOptions))
"""What an order of selected rows reads, among a method's parameters."""

_BASELINES: Final = ("naive", "random")
_RULES: Final = ("semdedup", "cover")
# What a study decides itself, for all methods alike.
_OF_STUDY: Final = {
    *("table", "table_name", "method", "seed", "budget", "unit", "where", "within", "name"),
    *("order_options", "executor", "scratch", "progress"),
}
_GRID: Final = ("num_sources", "num_generators")
_DEDUP_OPTIONS: Final = ("embedding", "threshold", "best_by", "num_probes", "num_cells")
# Drawn by the method of a cell, or for all alike.
_NOT_TRAINING: Final = {"seed", "sampling", "weighted_loss"}


@dataclass(frozen=True)
class Method:
    """A way to choose rows of the training side, with its parameters."""

    name: str
    verb: Verb
    plugin: str
    """A selector, a weighter, or the rule of a deduplication."""
    parameters: Mapping[str, Any]
    budgets: tuple[int | None, ...]
    """Rows that it may keep, one cell each; None for all."""

    @property
    def parameters_text(self) -> str:
        """The parameters as results have them."""
        return parameters_text(self.parameters)


@dataclass(frozen=True)
class ProtocolPlan:
    """Which folds a protocol has."""

    protocol: Protocol
    only: tuple[str, ...] = ()
    """Generators, groups or sources that make a fold; empty for all that can."""
    groups: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """`logo`: generators that are held out together under a name, such as versions of one."""
    min_spoof: int = 1
    """Folds whose test has fewer spoofs are left out."""
    min_bonafide: int = 1
    """Or fewer bona fide rows: five of them give an EER in steps of a fifth."""
    bonafide_fraction: float = 0.3
    """`logo`: the share of bona fide rows that training does not hear."""
    seed: int = 0
    """`logo`: which bona fide rows those are. The same for all methods and seeds."""

    def __post_init__(self) -> None:
        if not 0 < self.bonafide_fraction < 1:
            raise ConfigError(
                "bonafide_fraction is out of range",
                where=self.protocol,
                expected="above 0 and below 1",
                found=str(self.bonafide_fraction),
            )


@dataclass(frozen=True)
class StudyDesign:
    """All that decides a study's results, besides the table's version and the toolkit's."""

    table: str
    methods: tuple[Method, ...]
    protocols: tuple[ProtocolPlan, ...]
    seeds: tuple[int, ...]
    """Each is the seed of a cell's selection and of its training."""
    training: TrainingSettings
    detector: str = "embedding_mlp"
    embedding: str | None = None
    """The column that the detector reads; None for its own."""
    where: str | None = None
    seconds: float = 4.0
    """Of an utterance that are heard."""
    device: str = "auto"
    """Where cells are trained: `auto`, `cpu`, `cuda`."""
    threads: int = 1
    """That torch works with in a cell: sums depend on it, in the last bits."""
    baselines: tuple[str, ...] = ()
    """The methods that the others are compared with."""
    compared: tuple[str, ...] = ()
    """The methods that are compared with them: each question more asks for more folds."""

    def as_dict(self) -> dict[str, Any]:
        """The design as JSON values."""
        return asdict(self)


def read_design(path: str | os.PathLike[str]) -> StudyDesign:
    """The design in a file.

    Raises:
        NotFoundError: there is no such file.
        ConfigError: it is no YAML, a key or value cannot be used, or a method is not known.
    """
    return _Reader(str(path)).design(read_mapping(Path(path)))


@dataclass(frozen=True)
class _Reader:
    """Reads one file; errors name it."""

    path: str

    def design(self, content: Mapping[object, object]) -> StudyDesign:
        known = {each.name for each in fields(StudyDesign)} | {"budgets"}
        given = self.mapping("", content, known)
        for name in ("table", "methods", "protocols"):
            if given.get(name) is None:
                raise ConfigError(f"A study needs {name}", where=self.path)
        budgets = self.budgets("budgets", given.get("budgets", ALL))
        methods = self.methods(given["methods"], budgets)
        plain: dict[str, Any] = {
            name: self.typed(name, given[name], kinds)
            for name, kinds in _PLAIN.items()
            if given.get(name) is not None
        }
        names = [method.name for method in methods]
        usual = [name for name in _BASELINES if name in names]
        design = StudyDesign(
            methods=methods,
            baselines=self.texts("baselines", given.get("baselines", usual)),
            compared=self.texts("compared", given.get("compared", _asked_of(methods))),
            protocols=self.protocols(given["protocols"]),
            seeds=self.seeds(given.get("seeds", 5)),
            training=self.training(given.get("training") or {}),
            **plain,
        )
        for key in ("baselines", "compared"):
            for name in getattr(design, key):
                if name not in names:
                    raise ConfigError(
                        f"{name}, of {key}, is none of the methods",
                        where=self.path,
                        fix=nearest(name, names),
                    )
        if design.threads < 1 or not design.seconds > 0:
            raise ConfigError(
                "threads and seconds are above 0",
                where=self.path,
                found=f"{design.threads} threads, {design.seconds} seconds",
            )
        return design

    def mapping(self, at: str, value: object, known: Collection[str]) -> dict[str, Any]:
        """A mapping whose keys are all known."""
        if not isinstance(value, Mapping):
            raise self.wrong(at, "keys with values", value)
        for key in value:
            if key not in known:
                raise ConfigError(
                    f"A study has no key {str(key)!r}{f' in {at}' if at else ''}",
                    where=self.path,
                    fix=nearest(str(key), known),
                )
        return dict(value)

    def typed(self, at: str, value: object, kinds: tuple[type, ...]) -> Any:
        """A value of one of some types; a whole number is a number."""
        wanted = kinds
        if float in kinds:
            kinds = (*kinds, int)
        # In Python true is a 1.
        if not isinstance(value, kinds) or (isinstance(value, bool) and bool not in kinds):
            raise self.wrong(at, " or ".join(_WORDS[kind] for kind in wanted), value)
        return float(value) if float in kinds and isinstance(value, int) else value

    def texts(self, at: str, value: object) -> tuple[str, ...]:
        """A list of names, or one."""
        listed = value if isinstance(value, list) else [value]
        return tuple(self.typed(at, each, (str,)) for each in listed)

    def wrong(self, at: str, expected: str, found: object) -> ConfigError:
        return ConfigError(
            f"A study cannot use this{f' for {at}' if at else ''}",
            where=self.path,
            expected=expected,
            found=repr(found),
        )

    def budgets(self, at: str, value: object) -> tuple[int | None, ...]:
        listed = value if isinstance(value, list) else [value]
        budgets = tuple(
            None if each == ALL else cast("int", self.typed(at, each, (int,))) for each in listed
        )
        if not budgets or any(each is not None and each < 1 for each in budgets):
            raise self.wrong(at, f"numbers of rows above 0, or {ALL}", value)
        return self.once(at, budgets)

    def seeds(self, value: object) -> tuple[int, ...]:
        if isinstance(value, list):
            return self.once("seeds", tuple(self.typed("seeds", each, (int,)) for each in value))
        number: int = self.typed("seeds", value, (int,))
        if number < 1:
            raise self.wrong("seeds", "a number of seeds above 0, or a list of them", value)
        return tuple(range(number))

    def once(self, at: str, values: tuple[Any, ...]) -> tuple[Any, ...]:
        """The values, each there once: twins would narrow every interval."""
        if len(set(values)) < len(values) or not values:
            raise self.wrong(at, "one or more values, none twice", list(values))
        return values

    def training(self, value: object) -> TrainingSettings:
        settings = {each.name: each for each in fields(TrainingSettings)}
        given = self.mapping("training", value, set(settings) - _NOT_TRAINING)
        chosen: dict[str, Any] = {}
        for name, each in given.items():
            default = settings[name].default
            if isinstance(default, tuple):
                chosen[name] = self.texts(f"training.{name}", each)
            else:
                kinds = (type(default),)
                chosen[name] = self.typed(f"training.{name}", each, kinds)
        return TrainingSettings(**chosen)

    def protocols(self, value: object) -> tuple[ProtocolPlan, ...]:
        if isinstance(value, str):
            value = [value]
        if isinstance(value, list):
            value = {self.typed("protocols", each, (str,)): None for each in value}
        given = self.mapping("protocols", value, PROTOCOLS)
        if not given:
            raise self.wrong("protocols", ", ".join(PROTOCOLS), value)
        return tuple(self.protocol(name, options) for name, options in given.items())

    def protocol(self, name: str, options: object) -> ProtocolPlan:
        only_logo = {"groups", "bonafide_fraction", "seed"}
        known = {each.name for each in fields(ProtocolPlan)} - {"protocol"}
        known -= set() if name == "logo" else only_logo
        at = f"protocols.{name}"
        given = self.mapping(at, options or {}, known)
        chosen: dict[str, Any] = {}
        for key, value in given.items():
            if key == "only":
                chosen[key] = self.texts(f"{at}.only", value)
            elif key == "groups":
                groups = self.mapping(f"{at}.groups", value, list(value or ()))
                chosen[key] = {
                    self.typed(f"{at}.groups", group, (str,)): self.texts(f"{at}.groups", members)
                    for group, members in groups.items()
                }
            else:
                kinds = (float,) if key == "bonafide_fraction" else (int,)
                chosen[key] = self.typed(f"{at}.{key}", value, kinds)
        return ProtocolPlan(cast("Protocol", name), **chosen)

    def methods(self, value: object, budgets: tuple[int | None, ...]) -> tuple[Method, ...]:
        if not isinstance(value, list) or not value:
            raise self.wrong("methods", "a list of names, or of keys with values", value)
        entries = [self.entry(each, budgets) for each in value]
        names = [methods[0].name for methods in entries]
        if twins := sorted({name for name in names if names.count(name) > 1}):
            raise ConfigError(
                f"Two methods are called {twins[0]}",
                where=self.path,
                fix="Give one of them another name: {name: …, method: …}",
            )
        return tuple(method for methods in entries for method in methods)

    def entry(self, value: object, budgets: tuple[int | None, ...]) -> tuple[Method, ...]:
        """The method of an entry; of a grid one for each pair of its numbers."""
        if not isinstance(value, Mapping) or not set(_GRID) <= set(value):
            return (self.method(value, budgets),)
        axes = [each if isinstance(each, list) else [each] for each in map(value.get, _GRID)]
        pairs = self.once(" x ".join(_GRID), tuple(itertools.product(*axes)))
        return tuple(
            self.method({**value, **dict(zip(_GRID, pair, strict=True))}, budgets) for pair in pairs
        )

    def method(self, value: object, budgets: tuple[int | None, ...]) -> Method:
        entry = {"method": value} if isinstance(value, str) else value
        if not isinstance(entry, Mapping):
            raise self.wrong("methods", "a name, or keys with values", value)
        ways = [key for key in ("method", *_GROUPS, "dedup") if key in entry]
        if len(ways) != 1:
            raise self.wrong("methods", "one of method, select, weigh, dedup", value)
        (way,) = ways
        word = self.typed(f"methods.{way}", entry[way], (str,))
        found = self.found(way, word)
        options = _options_of(found.verb)
        given = self.mapping(f"method {word}", entry, {*options, way, "name", "budgets"})
        name = self.typed("methods.name", given.pop("name", word), (str,))
        own = given.pop("budgets", None)
        allowed = budgets if own is None else self.budgets(f"budgets of {name}", own)
        del given[way]
        parameters = {**found.defaults, **given}
        for key, each in parameters.items():
            self.typed(f"{name}.{key}", each, (str, float, bool))
        if found.verb == "dedup" and "embedding" not in parameters:
            raise ConfigError(
                f"The method {name} needs the embedding to compare by", where=self.path
            )
        if found.verb == "subset":
            for key in _GRID:
                if self.typed(f"{name}.{key}", parameters.get(key), (int,)) < 1:
                    raise self.wrong(f"{name}.{key}", "numbers above 0", parameters[key])
        return Method(name, found.verb, found.plugin, parameters, self.feasible(
            name, found, parameters, allowed, is_own=own is not None
        ))  # fmt: skip

    def found(self, way: str, word: str) -> _Known:
        """What a name stands for: a short name, or a plug-in's."""
        if way == "dedup":
            if word not in _RULES:
                raise self.wrong("methods.dedup", " or ".join(_RULES), word)
            return _Known("dedup", word)
        if way in _GROUPS:
            verb = cast("Verb", way)
            if word not in plugins.names(_GROUPS[verb]):
                raise self.unknown(word, plugins.names(_GROUPS[verb]))
            return _Known(verb, word)
        if word in _METHODS:
            return _METHODS[word]
        for verb, group in _GROUPS.items():
            if word in plugins.names(group):
                return _Known(verb, word)
        raise self.unknown(
            word,
            {*_METHODS, *(name for group in _GROUPS.values() for name in plugins.names(group))},
        )

    def unknown(self, word: str, names: Iterable[str]) -> ConfigError:
        return ConfigError(
            f"There is no method {word!r}", where=self.path, fix=nearest(word, names)
        )

    def feasible(
        self,
        name: str,
        found: _Known,
        parameters: Mapping[str, Any],
        budgets: tuple[int | None, ...],
        *,
        is_own: bool,
    ) -> tuple[int | None, ...]:
        """The budgets that the method can be given; those of the study that it cannot are not its.

        A selector that no budget turns, as naive aggregation, has all rows as its only one; one
        whose number a budget finds needs a budget, or that number.
        """
        if found.verb != "select":
            return budgets
        selector = method_of(_GROUPS["select"], found.plugin, Selector, "a selector")  # type: ignore[type-abstract]
        if selector.knob is None or parameters.get(selector.knob) is not None:
            feasible: tuple[int | None, ...] = (None,)
            wanted = "all rows: no budget turns it"
        else:
            feasible = tuple(each for each in budgets if each is not None)
            wanted = f"numbers of rows, which find its {selector.knob}"
        if not feasible or (is_own and set(budgets) != set(feasible)):
            raise ConfigError(
                f"The method {name} has no such budget",
                where=self.path,
                expected=wanted,
                found=", ".join(ALL if each is None else str(each) for each in budgets),
            )
        return feasible


def _asked_of(methods: Iterable[Method]) -> list[str]:
    """All methods but grids, which are there for laws and not to win."""
    return list(dict.fromkeys(each.name for each in methods if each.verb != "subset"))


def _options_of(verb: Verb) -> list[str]:
    if verb == "dedup":
        return list(_DEDUP_OPTIONS)
    if verb == "subset":
        return list(_GRID)
    function: Callable[..., object] = select if verb == "select" else weigh
    names = set(inspect.signature(function).parameters) - _OF_STUDY
    return sorted(names | ORDER_OPTIONS if "order" in names else names)


_PLAIN: Final[Mapping[str, tuple[type, ...]]] = {
    "table": (str,),
    "detector": (str,),
    "embedding": (str,),
    "where": (str,),
    "device": (str,),
    "seconds": (float,),
    "threads": (int,),
}
_WORDS: Final[Mapping[type, str]] = {
    str: "a text",
    int: "a whole number",
    float: "a number",
    bool: "true or false",
}
