"""Bytes of an output stream to bounded lines of text, a block of them at a time.

A block is one text: its lines are joined by newlines, so that nothing has to be done for each.
"""


class Lines:
    """Collects one stream; a line ends at a newline, wherever the chunks were cut.

    Args:
        limit: Bytes of a line that are kept; the rest is counted and named.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._rest = bytearray()
        self._cut = 0

    def feed(self, chunk: bytes) -> str | None:
        """The block of lines that this chunk completes; None when it completes none."""
        last = chunk.rfind(b"\n")
        if last < 0:
            self._grow(chunk)
            return None
        first = chunk.find(b"\n")
        if self._cut or len(self._rest) + first > self._limit:
            self._grow(chunk[:first])
            block = self.end() or ""
            if last > first:
                block = f"{block}\n{self._block(chunk[first + 1 : last])}"
        else:
            block = self._block(bytes(self._rest) + chunk[:last])
            self._rest.clear()
        self._grow(chunk[last + 1 :])
        return block

    def end(self) -> str | None:
        """The unfinished line, if there is one."""
        if not (self._rest or self._cut):
            return None
        line = _text(bytes(self._rest), cut=self._cut)
        self._rest.clear()
        self._cut = 0
        return line

    def _grow(self, piece: bytes) -> None:
        room = self._limit - len(self._rest)
        self._rest += piece[:room]
        self._cut += max(0, len(piece) - room)

    def _block(self, lines: bytes) -> str:
        if _has_longer(lines, self._limit):
            parts = lines.split(b"\n")
            return "\n".join(_text(p[: self._limit], cut=len(p) - self._limit) for p in parts)
        # One decoding for all: a broken sequence ends at its newline, so no line is lost.
        joined = lines.decode("utf-8", "replace").replace("\0", "\ufffd")
        if "\r" in joined:
            joined = f"{joined}\n".replace("\r\n", "\n")[:-1]
        return joined


def _has_longer(lines: bytes, limit: int) -> bool:
    """Whether one of the lines has more bytes; looks at a few of their ends only."""
    at = 0
    while len(lines) - at > limit:
        at = lines.rfind(b"\n", at, at + limit + 1) + 1
        if at == 0:
            return True
    return False


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
