"""The help text of the flags."""

from charonia.cli.flags import GROUPS, Effect, Flag

_NAME_WIDTH = 46
_NOTES = {
    Effect.WORKS: "",
    Effect.NO_EFFECT: " [accepted, no effect]",
}


def usage(command: str) -> str:
    """All flags by group, one line each."""
    lines = [f"Usage: {command} --model-repository=DIR [flags]", ""]
    lines += [_aligned("  -h, --help", "Print this."), _aligned("  --version", "Print the version."), ""]
    for title, flags in GROUPS.items():
        lines.append(f"{title}:")
        lines.extend(_line(flag) for flag in flags)
        lines.append("")
    return "\n".join(lines)


def _line(flag: Flag) -> str:
    left = f"  --{flag.name}" + (f"={flag.value_name}" if flag.convert else "")
    instead = f" Use {flag.instead}." if flag.instead else ""
    return _aligned(left, f"{flag.help}{instead}{_NOTES[flag.effect]}")


def _aligned(left: str, right: str) -> str:
    return f"{left:<{_NAME_WIDTH}} {right}"
