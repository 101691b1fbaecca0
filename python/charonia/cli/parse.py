"""From a command line to ServerOptions, as getopt_long reads it: `--a=b`, `--a b`, unambiguous beginnings of names."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from charonia.cli.flags import FLAGS, Effect, Flag
from charonia.core.errors import InvalidArgumentError, UnsupportedError
from charonia.options import ServerOptions


@dataclass(slots=True)
class ParsedFlags:
    """Options, and what the user should hear about flags that were accepted without an effect or are deprecated."""

    options: ServerOptions
    remarks: list[str] = field(default_factory=list)


def parse_flags(arguments: Sequence[str]) -> ParsedFlags:
    """Read and check a whole command line.

    Raises:
        InvalidArgumentError: an unknown flag, a bad value, settings that contradict one another.
        UnsupportedError: a flag of Triton's that this version can't follow yet.
    """
    given: dict[str, list[Any]] = {}
    collected: dict[str, Flag] = {}
    remarks: list[str] = []
    for flag, raw in _pairs(arguments):
        value = _value(flag, raw)
        if flag.effect is Effect.LATER:
            _refuse_unless_inert(flag, raw or "")
        elif flag.effect is Effect.NO_EFFECT:
            remarks.append(f"--{flag.name} is accepted and has no effect here ({flag.help.rstrip('.')})")
        if flag.instead:
            remarks.append(f"--{flag.name} is deprecated, use {flag.instead}")
        if flag.option:
            given.setdefault(flag.option, []).append(value)
            collected[flag.option] = flag
    settings = {name: _combined(collected[name], values) for name, values in given.items()}
    options = ServerOptions.of(**settings)
    options.check()
    return ParsedFlags(options, remarks)


def _combined(flag: Flag, values: list[Any]) -> Any:
    return flag.collect(values) if flag.collect else values[-1]


def _pairs(arguments: Sequence[str]) -> list[tuple[Flag, str | None]]:
    """Each flag with its text, None for those that take no value."""
    pairs: list[tuple[Flag, str | None]] = []
    rest = list(reversed(arguments))
    while rest:
        word = rest.pop()
        if not word.startswith("-") or word == "--":
            raise InvalidArgumentError(f"unexpected argument '{word}': settings are given as --name=value")
        name, equals, text = word.lstrip("-").partition("=")
        flag = find_flag(name)
        if flag.convert is None:
            if equals:
                raise InvalidArgumentError(f"--{flag.name} takes no value, got '{text}'")
            pairs.append((flag, None))
        elif equals:
            pairs.append((flag, text))
        elif rest:
            pairs.append((flag, rest.pop()))
        else:
            raise InvalidArgumentError(f"--{flag.name} requires a value: --{flag.name}={flag.value_name}")
    return pairs


def find_flag(name: str) -> Flag:
    """The flag of that name, or the only one whose name begins so.

    Raises:
        InvalidArgumentError: none, or several; names the nearest.
    """
    if name in FLAGS:
        return FLAGS[name]
    begins = [flag for known, flag in FLAGS.items() if name and known.startswith(name)]
    if len(begins) == 1:
        return begins[0]
    if begins:
        raise InvalidArgumentError(f"--{name} is ambiguous: {', '.join('--' + flag.name for flag in begins[:6])}")
    nearest = _nearest(name)
    hint = f"; did you mean --{nearest}?" if nearest else ""
    raise InvalidArgumentError(f"unrecognized option '--{name}'{hint}")


def _nearest(name: str) -> str:
    from difflib import get_close_matches  # only needed for a typing error

    matches = get_close_matches(name.replace("_", "-"), FLAGS, n=1, cutoff=0.5)
    return matches[0] if matches else ""


def _value(flag: Flag, raw: str | None) -> Any:
    if flag.convert is None or raw is None:
        return True
    try:
        return flag.convert(raw)
    except InvalidArgumentError as error:
        raise InvalidArgumentError(f"--{flag.name}: {error}") from None


def _refuse_unless_inert(flag: Flag, raw: str) -> None:
    if raw.lower() not in flag.inert:
        harmless = f" (--{flag.name}={flag.inert[0]} is accepted)" if flag.inert else ""
        raise UnsupportedError(f"--{flag.name} comes with a later version of Charonia{harmless}")
