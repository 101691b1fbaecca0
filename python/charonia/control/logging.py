"""The log settings of the server, and the levels of one model, which is an addition of ours."""

from dataclasses import dataclass, replace

from charonia.control.protocols import LogControl, Models
from charonia.core.errors import InvalidArgumentError, UnsupportedError
from charonia.core.text import shown
from charonia.observe.log import NO_CHANGES, LevelChanges, LogLevels, LogSettings
from charonia.observe.log_lines import LINES

# Triton's is a signed number of 32 bits.
_MAX_VERBOSE_LEVEL = 2**31 - 1


@dataclass(frozen=True, slots=True)
class LogChange:
    """A request to change settings.

    Attributes:
        format: one of `--log-format`, None to leave it.
        file: not None when the request names a file.
        cleared: the fields of `levels` that the request sets to null.
    """

    levels: LevelChanges = NO_CHANGES
    format: str | None = None
    file: str | None = None
    cleared: frozenset[str] = frozenset()


class Logging:
    """Reads and changes settings. A change that is refused changes nothing."""

    def __init__(self, log: LogControl, models: Models) -> None:
        self._log = log
        self._models = models

    def settings(self) -> LogSettings:
        return self._log.settings

    def update(self, change: LogChange) -> LogSettings:
        """Change the server's settings; what is null stays. Gives the settings afterwards.

        Raises:
            UnsupportedError: the log's file can't be changed over the network, which could overwrite any file.
            InvalidArgumentError: an unknown format, or a level beyond 31 bits.
        """
        if change.file is not None:
            raise UnsupportedError("log file location can not be updated through network protocol")
        if change.format is not None and change.format not in LINES:
            known = ", ".join(LINES)
            raise InvalidArgumentError(
                f"invalid argument for log_format, got: '{shown(change.format)}'; expected one of {known}"
            )
        _check_level(change.levels)
        settings, levels = self._log.settings, change.levels.over(self._log.settings)
        self._log.change(
            replace(
                settings,
                info=levels.info,
                warning=levels.warning,
                error=levels.error,
                verbose_level=levels.verbose_level,
                format=settings.format if change.format is None else change.format,
            )
        )
        return self._log.settings

    def of_model(self, model: str) -> LogLevels:
        """The levels that count for a model of the repository, loaded or not. Raises NotFoundError for another."""
        self._models().check_known(model)
        return self._log.levels_of(model)

    def update_model(self, model: str, change: LogChange) -> LogLevels:
        """Change the levels of one model; what is null follows the server again. Gives the levels afterwards.

        Raises:
            NotFoundError: no such model.
            InvalidArgumentError: a setting that only the whole server has, or a level beyond 31 bits.
        """
        self._models().check_known(model)
        if change.file is not None or change.format is not None:
            raise InvalidArgumentError(
                f"'log_file' and 'log_format' are settings of the whole server: model '{model}' has levels only"
            )
        _check_level(change.levels)
        self._log.change_model(model, change.levels.after(self._log.changes_of(model), change.cleared))
        return self._log.levels_of(model)


def _check_level(levels: LevelChanges) -> None:
    level = levels.verbose_level
    if level is not None and level > _MAX_VERBOSE_LEVEL:
        raise InvalidArgumentError(f"'log_verbose_level' must be at most {_MAX_VERBOSE_LEVEL}, got {level}")
