"""One answer of HTTP/1.1, read from the bytes of a connection as they arrive. Pure.

As lenient as a browser: a line may end with a line feed alone, and a line of the head that is not
a header is skipped. The end of an answer is never guessed: an incomplete body is an error.

Source: RFC 9112, sections 2.2, 6 and 7.
"""

from __future__ import annotations

import gzip
import re
import zlib

_STATUS_LINE = re.compile(rb"HTTP/1\.([0-9]) ([0-9]{3})(?: .*)?", re.DOTALL)
_END_OF_HEAD = re.compile(rb"\r?\n\r?\n")
_END_OF_CHUNKS = re.compile(rb"\n\r?\n")
_SIZE = re.compile(rb"([0-9A-Fa-f]{1,16})[ \t]*(?:;.*)?\r?", re.DOTALL)
_NUMBER = re.compile(r"[0-9]{1,18}")
_MAX_HEAD_BYTES = 1 << 20
_MAX_LINE_BYTES = 1 << 16
_SWITCHING, _OK, _NO_CONTENT, _NOT_MODIFIED = 101, 200, 204, 304


class Malformed(ValueError):
    """The bytes are not an answer, or not a whole one."""


class Answer:
    """The answer to one request.

    Attributes:
        status: 0 until its head is there.
        headers: by name in small letters; of several with one name all values in one, with commas.
        set_cookies: values of `Set-Cookie`, which must not be joined.
        keeps_alive: whether the connection may be used for the next request.
    """

    __slots__ = (
        "_body", "_comes_in_chunks", "_data", "_has_no_body", "_length", "_seen", "headers",
        "keeps_alive", "set_cookies", "status",
    )  # fmt: skip

    def __init__(self, method: str) -> None:
        self.status = 0
        self.headers: dict[str, str] = {}
        self.set_cookies: list[str] = []
        self.keeps_alive = False
        self._has_no_body = method == "HEAD"
        self._data = bytearray()  # bytes that have arrived and are not read yet
        self._seen = 0  # its first bytes that were searched for the end of the head
        self._length: int | None = None  # bytes of the body; None where its end is found otherwise
        self._comes_in_chunks = False
        self._body = bytearray()

    @property
    def has_started(self) -> bool:
        """Whether any of it has arrived."""
        return bool(self.status or self._data)

    def feed(self, data: bytes) -> bool:
        """Take the bytes that have arrived; returns whether the answer is complete.

        Raises:
            Malformed: the bytes cannot become an answer.
        """
        self._data += data
        while not self.status:
            if not self._read_head():
                return False
        if self._comes_in_chunks:
            return self._read_chunks()
        return self._length is not None and self._has(self._length)

    def end(self) -> None:
        """The connection has ended. Raises Malformed unless that is the end of the answer."""
        if not self.status or self._comes_in_chunks or self._length is not None:
            raise Malformed("the connection was closed before the end of the answer")

    @property
    def content(self) -> bytes:
        """The body of a whole answer, decoded. Raises ValueError if it cannot be."""
        body = bytes(self._body if self._comes_in_chunks else self._data)
        encoding = self.headers.get("content-encoding", "").strip().lower()
        if not body or encoding in ("", "identity"):
            return body
        try:
            if encoding in ("gzip", "x-gzip"):
                return gzip.decompress(body)
            if encoding == "deflate":
                try:
                    return zlib.decompress(body)
                except zlib.error:  # servers leave zlib's frame out, too
                    return zlib.decompress(body, -zlib.MAX_WBITS)
        except (OSError, EOFError, zlib.error) as error:
            raise ValueError(f"the body is not {encoding}: {error}") from None
        raise ValueError(f"the content encoding {encoding!r} was not asked for")

    def _read_head(self) -> bool:
        """Read a complete head; skip one with a status of 1xx."""
        end = _END_OF_HEAD.search(self._data, max(0, self._seen - 3))
        if end is None:
            self._seen = len(self._data)
            if self._seen > _MAX_HEAD_BYTES:
                raise Malformed(f"its headers are longer than {_MAX_HEAD_BYTES:,} bytes")
            return False
        first, *lines = bytes(self._data[: end.start()]).split(b"\n")
        line = _STATUS_LINE.fullmatch(first.rstrip(b"\r"))
        if line is None:
            raise Malformed(f"it does not start with an HTTP status line: {first[:40]!r}")
        del self._data[: end.end()]
        status = int(line[2])
        if status < _OK and status != _SWITCHING:
            self._seen = 0
            return bool(self._data)
        self.status = status
        self._read_headers(lines)
        self._find_length(is_old=line[1] == b"0")
        return True

    def _read_headers(self, lines: list[bytes]) -> None:
        headers = self.headers
        for line in lines:
            name, colon, value = line.decode("latin-1").partition(":")
            if not colon:
                continue
            name, value = name.strip().lower(), value.strip()
            if name == "set-cookie":
                self.set_cookies.append(value)
            else:
                headers[name] = f"{headers[name]}, {value}" if name in headers else value

    def _find_length(self, is_old: bool) -> None:
        """Find how the answer ends, and whether the connection outlasts it."""
        headers = self.headers
        tokens = headers.get("connection", "").lower().replace(" ", "").split(",")
        self.keeps_alive = "keep-alive" in tokens if is_old else "close" not in tokens
        coding = headers.get("transfer-encoding", "").lower()
        if self._has_no_body or self.status in (_SWITCHING, _NO_CONTENT, _NOT_MODIFIED):
            self._length = 0
        elif coding:
            self._comes_in_chunks = coding.rpartition(",")[2].strip() == "chunked"
        elif "content-length" in headers:
            lengths = {text.strip() for text in headers["content-length"].split(",")}
            if len(lengths) > 1 or not _NUMBER.fullmatch(length := lengths.pop()):
                raise Malformed(f"Content-Length: {headers['content-length'][:40]}")
            self._length = int(length)
        has_end = self._comes_in_chunks or self._length is not None
        self.keeps_alive &= has_end and self.status != _SWITCHING

    def _has(self, size: int) -> bool:
        """Whether that number of bytes is there; bytes that follow belong to no answer."""
        if len(self._data) > size:
            del self._data[size:]
            self.keeps_alive = False
        return len(self._data) == size

    def _read_chunks(self) -> bool:
        """Move the complete chunks to the body; returns whether the last one is among them."""
        data, at = self._data, 0
        while (end_of_line := data.find(b"\n", at)) >= 0:
            size = _SIZE.fullmatch(data, at, end_of_line)
            if size is None:
                raise Malformed("a chunk without a size")
            begin, end = end_of_line + 1, end_of_line + 1 + int(size[1], 16)
            if end == begin:
                del data[:at]
                last = _END_OF_CHUNKS.search(data)
                return last is not None and self._has(last.end())
            after = bytes(data[end : end + 2])
            if not after.startswith(b"\n") and after != b"\r\n":
                if after not in (b"", b"\r"):
                    raise Malformed("a chunk without an end")
                break
            self._body += data[begin:end]
            at = end + 1 + (after[:1] == b"\r")
        else:
            if len(data) - at > _MAX_LINE_BYTES:
                raise Malformed("a chunk without a size")
        del data[:at]
        return False
