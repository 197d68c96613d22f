"""Logs: one line per record on standard error or in a file, as JSON or for a terminal, each with the id of the request
behind it.

The HTTP guard sets `request_id` for a request, and a worker sets it to that of the send it processes, so that one
search finds every line about a request. Never log tokens, bodies or passwords: log ids.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import logging
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextvars import ContextVar
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TextIO

import orjson

from app.settings import Settings

request_id: ContextVar[str | None] = ContextVar("request_id", default=None)
"""The `X-Request-Id` of the request that this context works for."""
client: ContextVar[Mapping[str, Any] | None] = ContextVar("client", default=None)
"""Fields of each line of the request: the client's address, and the name of its key once that is accepted."""

_buffer: ContextVar[list[str] | None] = ContextVar("log_buffer", default=None)

QUIET = {
    "rq.worker": logging.WARNING,
    "rq.job": logging.WARNING,
    "alembic": logging.WARNING,
    "opentelemetry": logging.CRITICAL,  # one line for each batch of spans that a collector does not take
    "urllib3": logging.ERROR,  # its warnings contain the URLs of webhooks and gateways, which may contain tokens
}
"""Loggers that log every step; wake-ups are not worth a line."""

STANDARD = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "request_id", "taskName"}
"""Attributes of every record; others were passed as `extra`."""


def configure(settings: Settings) -> None:
    """Sends all records of this process to standard error, or to `LOG_FILE`, in the form of `LOG_FORMAT`. Can be called
    repeatedly. Raises `OSError` for a file that cannot be opened."""
    handler = FileHandler(Path(settings.log_file)) if settings.log_file else LineHandler(sys.stderr)
    handler.setFormatter(FORMATTERS[settings.log_format]())
    handler.addFilter(_add_request)
    root = logging.getLogger()
    for former in root.handlers:
        if isinstance(former, FileHandler):
            former.close()
    root.handlers = [handler]
    root.setLevel(logging.INFO)
    logging.captureWarnings(True)
    _skip_unused()
    for name, level in QUIET.items():
        logging.getLogger(name).setLevel(level)


def _skip_unused() -> None:
    """Makes records without the caller's line and the thread, which no line shows: a seventh of the time of a line
    (https://docs.python.org/3/howto/logging.html#optimization)."""
    logging._srcfile = None
    logging.logThreads = False
    logging.logMultiprocessing = False


class LineHandler(logging.StreamHandler[TextIO]):
    """Writes each line when it is logged; inside `buffered`, all lines at the end of the block."""

    def emit(self, record: logging.LogRecord) -> None:
        """Raises nothing, like all handlers."""
        lines = _buffer.get()
        if lines is None:
            super().emit(record)
            return
        try:
            lines.append(self.format(record))
        except Exception:
            self.handleError(record)

    def write(self, lines: Sequence[str]) -> None:
        """Writes formatted lines. Raises nothing, like every handler: a full disk must not end who logs."""
        with self.lock or contextlib.nullcontext(), contextlib.suppress(OSError, ValueError):
            self.stream.write("".join(f"{line}{self.terminator}" for line in lines))
            self.flush()


MAX_FILE_BYTES = 100_000_000
"""Bytes after which a file is renamed, and a new one begun."""


class FileHandler(LineHandler):
    """Appends lines to a file, to which other processes append, too. Whichever of them finds it large renames it, in
    place of the one before; all others notice that and open the new one."""

    def __init__(self, path: Path) -> None:
        """Raises `OSError` for a file that cannot be opened."""
        self._path = path
        super().__init__(self._opened())

    def _opened(self) -> TextIO:
        self._path.parent.mkdir(parents=True, exist_ok=True)
        return self._path.open("a", encoding="utf-8")

    def emit(self, record: logging.LogRecord) -> None:
        """Raises nothing, like all handlers."""
        with contextlib.suppress(OSError):
            self._follow()
        super().emit(record)

    def write(self, lines: Sequence[str]) -> None:
        """Writes formatted lines. Raises nothing, like all handlers."""
        with self.lock or contextlib.nullcontext():  # another thread may close the stream that this one looks at
            with contextlib.suppress(OSError):
                self._follow()
            super().write(lines)

    def close(self) -> None:
        """Closes the file."""
        self.stream.close()
        super().close()

    def _follow(self) -> None:
        """Renames a large file, and opens the one that has the name now."""
        if self._is_large(self.stream):
            # A lock on the file opened once more: a process forked from this one would share that of the stream.
            with self._opened() as file, contextlib.suppress(BlockingIOError):
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                if self._is_large(file):  # the new one must not take the place of the one that was just renamed
                    self._path.replace(self._path.with_name(f"{self._path.name}.1"))
        if not self._has_name(self.stream):
            self.setStream(self._opened()).close()  # type: ignore[union-attr]

    def _is_large(self, file: TextIO) -> bool:
        return os.fstat(file.fileno()).st_size > MAX_FILE_BYTES and self._has_name(file)

    def _has_name(self, file: TextIO) -> bool:
        """Whether it is the file of that name still."""
        try:
            return os.path.samestat(os.fstat(file.fileno()), self._path.stat())
        except FileNotFoundError:
            return False


@contextlib.contextmanager
def buffered() -> Iterator[None]:
    """Lines logged inside the block are written at its end: one write for many costs little more than one for each."""
    lines: list[str] = []
    token = _buffer.set(lines)
    try:
        yield
    finally:
        _buffer.reset(token)
        for handler in logging.getLogger().handlers:
            if lines and isinstance(handler, LineHandler):
                handler.write(lines)


def log_many(logger: logging.Logger, lines: Sequence[tuple[str, Mapping[str, Any]]]) -> None:
    """Logs many lines of level INFO with one write, each a message and its extra fields.

    Where nobody else handles the records, the lines are made without them: a record takes three times as long as the
    line that is made of it.
    """
    if not lines or not logger.isEnabledFor(logging.INFO):
        return
    handler = _only_handler(logger)
    if handler is None or not isinstance(handler.formatter, JsonFormatter):
        with buffered():
            for message, fields in lines:
                logger.info(message, extra=fields)
        return
    common = {"time": _time_text(datetime.now(UTC)), "level": "info", "logger": logger.name}
    process = {"request_id": request_id.get(), "process": os.getpid(), **(client.get() or {})}
    handler.write([_json_text({**common, "message": message, **process, **fields}) for message, fields in lines])


def _only_handler(logger: logging.Logger) -> LineHandler | None:
    """The handler of the records of this logger, if it is the one that `configure` has set, alone."""
    above: logging.Logger | None = logger
    while above and above.parent:
        if above.handlers or above.filters or not above.propagate:
            return None
        above = above.parent
    handlers = above.handlers if above else []
    return handlers[0] if len(handlers) == 1 and isinstance(handlers[0], LineHandler) else None


def _add_request(record: logging.LogRecord) -> bool:
    if getattr(record, "request_id", None) is None:
        record.request_id = request_id.get()
    for name, value in (client.get() or {}).items():
        vars(record).setdefault(name, value)
    return True


def extra_fields(record: logging.LogRecord) -> dict[str, Any]:
    """The fields that the caller passed as `extra=`."""
    return {name: value for name, value in vars(record).items() if name not in STANDARD}


def moment(record: logging.LogRecord) -> datetime:
    """Time of the record in UTC."""
    return datetime.fromtimestamp(record.created, UTC)


class JsonFormatter(logging.Formatter):
    """One JSON object per line: time, level, logger, message, request_id, process, extra fields, traceback."""

    def format(self, record: logging.LogRecord) -> str:
        """Writes values that JSON does not know as their text."""
        line: dict[str, Any] = {
            "time": _time_text(moment(record)),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
            "request_id": getattr(record, "request_id", None),
            "process": record.process,
            **extra_fields(record),
        }
        if record.exc_info:
            line["traceback"] = self.formatException(record.exc_info)
        return _json_text(line)


def _time_text(time: datetime) -> str:
    return f"{time.isoformat(timespec='milliseconds')[:-6]}Z"


def _json_text(line: Mapping[str, Any]) -> str:
    try:
        return orjson.dumps(line, default=str).decode()
    except orjson.JSONEncodeError:  # half a surrogate pair, or a number beyond 64 bits
        return json.dumps(line, default=str)


class ConsoleFormatter(logging.Formatter):
    """Time, level, logger, message and extra fields for a terminal; the traceback follows."""

    def format(self, record: logging.LogRecord) -> str:
        """Times are local."""
        return f"{moment(record).astimezone().strftime('%H:%M:%S')} {record.levelname.lower():7} {self.text(record)}"

    def text(self, record: logging.LogRecord) -> str:
        """The line without time and level."""
        parts = [f"{record.name}:", record.getMessage()]
        fields = {"request_id": getattr(record, "request_id", None), **extra_fields(record)}
        parts += [f"{name}={value}" for name, value in fields.items() if value is not None]
        line = " ".join(parts)
        return f"{line}\n{self.formatException(record.exc_info)}" if record.exc_info else line


PRIORITIES = ((logging.CRITICAL, 2), (logging.ERROR, 3), (logging.WARNING, 4), (logging.INFO, 6), (logging.NOTSET, 7))
"""Level -> the priority of syslog(3), of which the journal takes the names."""


class JournalFormatter(ConsoleFormatter):
    """Lines for systemd's journal, which knows the time and takes the priority from `<N>` at the start of each line
    (sd-daemon(3)): `journalctl -p warning` shows what is wrong."""

    def format(self, record: logging.LogRecord) -> str:
        """A traceback is several entries of one priority. A NUL would end a line."""
        mark = next(f"<{priority}>" for level, priority in PRIORITIES if record.levelno >= level)
        return "\n".join(mark + line for line in self.text(record).replace("\0", " ").split("\n"))


FORMATTERS: dict[str, type[logging.Formatter]] = {
    "json": JsonFormatter,
    "console": ConsoleFormatter,
    "journal": JournalFormatter,
}
"""By LOG_FORMAT."""
