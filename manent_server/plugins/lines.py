"""Bytes of an output stream to bounded lines of text, a chunk at a time."""


class Lines:
    """Collects one stream; a line ends at a newline, wherever the chunks were cut.

    Args:
        limit: Bytes of a line that are kept; the rest is counted and named.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._rest = bytearray()
        self._cut = 0

    def feed(self, chunk: bytes) -> list[str]:
        """The lines that this chunk completes."""
        first, *others = chunk.split(b"\n")
        self._grow(first)
        if not others:
            return []
        complete = self.end(always=True)
        self._grow(others.pop())
        return complete + self._texts(others)

    def end(self, *, always: bool = False) -> list[str]:
        """The unfinished line, if there is one (or `always`)."""
        if not (self._rest or self._cut or always):
            return []
        line = _text(bytes(self._rest), cut=self._cut)
        self._rest.clear()
        self._cut = 0
        return [line]

    def _grow(self, piece: bytes) -> None:
        room = self._limit - len(self._rest)
        self._rest += piece[:room]
        self._cut += max(0, len(piece) - room)

    def _texts(self, lines: list[bytes]) -> list[str]:
        if not lines:
            return []
        if len(max(lines, key=len)) > self._limit:
            return [_text(line[: self._limit], cut=len(line) - self._limit) for line in lines]
        # One decoding for all: a broken sequence ends at its newline, so no line is lost.
        joined = b"\n".join(lines).decode("utf-8", "replace").replace("\0", "\ufffd")
        if "\r" in joined:
            joined = f"{joined}\n".replace("\r\n", "\n")[:-1]
        return joined.split("\n")


def _text(line: bytes, *, cut: int) -> str:
    if cut <= 0:
        return line.decode("utf-8", "replace").replace("\0", "\ufffd").removesuffix("\r")
    whole = line.decode("utf-8", "ignore") if _ends_inside_a_character(line) else None
    text = (line.decode("utf-8", "replace") if whole is None else whole).replace("\0", "\ufffd")
    return f"{text} [{cut} more bytes of this line were cut]"


def _ends_inside_a_character(line: bytes) -> bool:
    try:
        line.decode("utf-8")
    except UnicodeDecodeError as error:
        return error.reason == "unexpected end of data"
    return False
