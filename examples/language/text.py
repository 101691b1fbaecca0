"""Text to tokens and back, for the models of this example: a copy lies beside each of them."""

import json
from pathlib import Path

PADDING, END = 0, 1
WINDOW = 16


class Table:
    """What each token stands for."""

    def __init__(self, folder):
        self.pieces = [bytes.fromhex(text) for text in json.loads(Path(folder, "table.json").read_text())]
        self._tokens = {piece: token for token, piece in enumerate(self.pieces) if piece}
        self._longest = max(map(len, self.pieces))

    def tokens(self, text):
        """The longest pieces from the left; every byte is a piece."""
        found, at = [], 0
        while at < len(text):
            size = next(size for size in range(self._longest, 0, -1) if text[at : at + size] in self._tokens)
            found.append(self._tokens[text[at : at + size]])
            at += size
        return found


def window(tokens):
    """The last tokens, padded at the left."""
    last = tokens[-WINDOW:]
    return [PADDING] * (WINDOW - len(last)) + last
