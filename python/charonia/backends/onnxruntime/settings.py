"""Reading the `parameters` of a configuration: text that must be a number or a truth value."""

from charonia.config.schema import ModelConfig
from charonia.core.errors import InvalidArgumentError

_TRUTH = {"1": True, "true": True, "on": True, "0": False, "false": False, "off": False}


class Settings:
    """The `parameters` of one model. Each reader raises InvalidArgumentError that names model, key and value."""

    def __init__(self, config: ModelConfig) -> None:
        self._model = config.name
        self._values = {key: parameter.string_value for key, parameter in config.parameters.items()}

    def text(self, key: str) -> str | None:
        return self._values.get(key)

    def flag(self, key: str) -> bool | None:
        value = self._values.get(key)
        if value is None:
            return None
        if value.lower() not in _TRUTH:
            raise self.wrong(key, "1 or 0, true or false")
        return _TRUTH[value.lower()]

    def count(self, key: str) -> int | None:
        """A whole number from 0 on."""
        value = self._values.get(key)
        if value is not None and not value.strip().isdecimal():
            raise self.wrong(key, "a whole number from 0 on")
        return None if value is None else int(value)

    def choice(self, key: str, choices: dict[str, str]) -> str | None:
        """What `choices` gives for the value, or the value if it is one of the results."""
        value = self._values.get(key)
        if value is None or value in choices.values():
            return value
        if value not in choices:
            raise self.wrong(key, " or ".join(f"{number} ({meaning})" for number, meaning in choices.items()))
        return choices[value]

    def with_prefix(self, prefix: str) -> dict[str, str]:
        return {key: value for key, value in self._values.items() if key.startswith(prefix)}

    def wrong(self, key: str, expected: str) -> InvalidArgumentError:
        return InvalidArgumentError(
            f"model '{self._model}': parameter '{key}' must be {expected}, got '{self._values.get(key, '')}'"
        )
