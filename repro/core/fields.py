"""Typed configurations (pydantic), with one-line errors that name the wrong entry and the allowed values."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Annotated, Any, ClassVar, TypeVar, get_args, get_type_hints

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, TypeAdapter, ValidationError, model_validator
from pydantic.errors import PydanticUserError

from repro.core.credentials import has_credential
from repro.core.errors import InputError, unknown_name

LONGEST = 200  # characters of a name or title
SHOWN = 200  # characters of a wrong value in a message
BRANCHES = ("float", "int")  # names that pydantic adds for unions
QUOTE = "'"  # pydantic's quotes around allowed values
T = TypeVar("T")

Count = Annotated[int, Field(ge=1)]
Whole = Annotated[int, Field(ge=0)]
Number = Annotated[float, Field(allow_inf_nan=False)]
Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]
NonNegative = Annotated[float, Field(ge=0, allow_inf_nan=False)]
Share = Annotated[float, Field(gt=0, le=1)]  # not NaN: it is not above 0


def _printable(text: str) -> str:
    if not text.strip() or not text.isprintable() or len(text) > LONGEST:
        raise ValueError(f"must be a text of 1 to {LONGEST} characters on one line")
    if has_credential(text):
        raise ValueError("must be no password or token: it would stand in records")
    return text


Entries = dict[str, Any]
Text = Annotated[str, AfterValidator(_printable)]

# pydantic's error type -> what an entry must be; other types keep pydantic's message
MUST = {
    "int_type": "a whole number",
    "int_parsing": "a whole number",
    "float_type": "a number",
    "finite_number": "a finite number",
    "bool_type": "true or false",
    "bool_parsing": "true or false",
    "string_type": "a text",
    "list_type": "a list, as [A,B]",
    "tuple_type": "a list, as [A,B]",
    "dict_type": "entries, as {name}.NAME=value sets one",
    "model_type": "entries, as {name}.NAME=value sets one",
    "dataclass_type": "entries, as {name}.NAME=value sets one",
    "greater_than": "above {gt:g}",
    "greater_than_equal": "{ge:g} or more",
    "less_than": "below {lt:g}",
    "less_than_equal": "{le:,.10g} or less",
    "literal_error": "{expected}",
    "too_short": "{min_length} or more entries",
    "too_long": "{max_length} or fewer entries",
    "date_type": "a date, as 2026-11-29",
    "date_parsing": "a date, as 2026-11-29",
    "date_from_datetime_parsing": "a date, as 2026-11-29",
}


class Model(BaseModel):
    """An immutable part of a configuration; unknown entries are errors."""

    model_config = ConfigDict(frozen=True, strict=True, extra="forbid", arbitrary_types_allowed=True)
    part: ClassVar[str] = ""  # path of the part in the configuration

    @model_validator(mode="before")
    @classmethod
    def _known(cls, values: Any) -> Any:
        prefix = f"{cls.part}." if cls.part else ""
        if isinstance(values, Mapping) and cls.model_config["extra"] == "forbid":
            for name in values:
                if name not in cls.model_fields:
                    raise unknown_name("option", f"{prefix}{name}", [f"{prefix}{field}" for field in cls.model_fields])
        elif isinstance(values, str) and cls.part:
            names = get_args(field.annotation) if (field := cls.model_fields.get("name")) else ()
            named = f"; {prefix}name is {', '.join(names)}" if names else ""
            raise InputError(f"{cls.part}={values}: must be entries, as {prefix}NAME=value sets one{named}")
        return values


def check_fields(kind: type[T], value: Any, where: str = "", owner: str = "", context: Any = None) -> T:
    """A model or dataclass from plain data; InputError for the first invalid entry.

    A dataclass is validated as JSON, so that a list may become a tuple. where: the path of the enclosing entry; owner:
    what requires the entries, for the message about a missing one; context: of a model's validators.
    """
    try:
        if issubclass(kind, BaseModel):
            return kind.model_validate(value, context=context)
        plain: type = kind  # mypy takes no type[T] for hashable
        return type_adapter(plain).validate_json(json.dumps(value, default=str), strict=True)
    except ValidationError as error:
        raise InputError(error_line(error, where, owner)) from None


def checked_entries(kind: type[T], values: Any, where: object) -> list[T]:
    """A model or dataclass for each entry of a list; InputError for the first invalid one. where: the list's file."""
    if not isinstance(values, list):
        raise InputError(
            f"{where}: must be a list of entries, each with {', '.join(getattr(kind, 'model_fields', ()))}"
        )
    made = []
    for number, value in enumerate(values, start=1):
        try:
            made.append(check_fields(kind, value))
        except InputError as error:
            raise InputError(f"{where}: entry {number}: {error}") from None
    return made


def check_value(kind: type[BaseModel], path: str, value: Any) -> None:
    """InputError for a value that the type of a model's entry `a.b` does not allow; unknown paths are not checked."""
    *steps, last = path.split(".")
    part: Any = kind
    for step in steps:
        part = entry.annotation if (entry := getattr(part, "model_fields", {}).get(step)) else None
    if entry := getattr(part, "model_fields", {}).get(last):
        annotated: Any = Annotated[entry.annotation, entry]
        try:
            TypeAdapter(annotated).validate_python(value, strict=part.model_config.get("strict"))
        except ValidationError as error:
            raise InputError(error_line(error, path)) from None


def checked_arguments(function: Callable[..., Any], arguments: dict[str, Any], where: str) -> dict[str, Any]:
    """The keyword arguments of a function; InputError for the first that its annotation does not allow. They are
    validated as JSON, as in `check_fields`."""
    try:
        hints = get_type_hints(function, include_extras=True)
    except (NameError, TypeError, AttributeError):  # a user's annotations for type checkers only
        return arguments
    for name in arguments.keys() & hints.keys():
        try:
            TypeAdapter(hints[name]).validate_json(json.dumps(arguments[name], default=str), strict=True)
        except PydanticUserError:
            continue
        except ValidationError as error:
            raise InputError(error_line(error, f"{where}.{name}")) from None
    return arguments


@lru_cache(maxsize=64)
def type_adapter(kind: type) -> TypeAdapter:
    """Pydantic's adapter of a dataclass, which takes a millisecond to make."""
    return TypeAdapter(kind)


def error_line(errors: ValidationError, where: str = "", owner: str = "") -> str:
    """The message about the first invalid entry: its path, its value, and what it must be."""
    located = [(each, [step for step in each["loc"] if step not in BRANCHES]) for each in errors.errors()]
    error, loc = located[0]
    if error["type"] == "int_type":  # of `int | float` what both refuse
        error = next(each for each, at in reversed(located) if at == loc)
    name = ".".join([*filter(None, [where]), *map(str, loc)])
    if error["type"] == "missing":
        return f"{name}: is missing" + (f"; {owner} requires it" if owner else "")
    if error["type"] == "unexpected_keyword_argument":  # a dataclass
        return f"{name}: unknown entry"
    if not name:  # a check of several entries together
        return str(error["msg"]).removeprefix("Value error, ").replace("Input should", "must")
    value, context = error["input"], {"name": name, **error.get("ctx", {})}
    number_as_text = error["type"] in ("int_type", "float_type") and re.match(r"[-+.]?\d", str(value))
    if isinstance(value, str) and (number_as_text or not (value and value.isprintable())):
        value = repr(value)
    value = str(value)[:SHOWN]
    if error["type"] in MUST:
        return f"{name}={value}: must be {MUST[error['type']].format(**context).replace(QUOTE, '')}"
    return f"{name}={value}: {error['msg'].removeprefix('Value error, ').replace('Input should', 'must')}"


def entry_at(values: Mapping[str, Any], path: str) -> Any:
    """The entry at a path of names; None if it does not exist."""
    node: Any = values
    for name in path.split("."):
        if not isinstance(node, Mapping) or name not in node:
            return None
        node = node[name]
    return node
