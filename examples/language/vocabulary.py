"""The tokens of the example's language model: padding, end, the 256 bytes, and pieces of text."""

PADDING, END = 0, 1
FIRST_BYTE = 2
PIECES = [
    *(
        b" the",
        b" a",
        b" sea",
        b" snail",
        b" shell",
        b" horn",
        b" of",
        b" Triton",
        b" sounds",
        b" and",
        b" calls",
        b" in",
    ),
    *(b" waves", b" deep", b" far", b" over", b" rocks", b" slowly", b" its", b" trumpet", b" blue", b" tide", b","),
    # Characters of several bytes come in two tokens: what reads them has to wait for the second.
    *(b" caf\xc3", b"\xa9", b" \xf0\x9f\x90", b"\x9a"),
]
FIRST_PIECE = FIRST_BYTE + 256
SIZE = FIRST_PIECE + len(PIECES)
SECOND_HALVES = {b" caf\xc3": b"\xa9", b" \xf0\x9f\x90": b"\x9a"}
"""By the first half of a split character, the piece that has to follow."""


def token_of(piece: bytes) -> int:
    return FIRST_PIECE + PIECES.index(piece)


def table() -> list[bytes]:
    """What each token stands for."""
    return [b"", b"", *(bytes([value]) for value in range(256)), *PIECES]
