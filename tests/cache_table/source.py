"""A web server on this machine that counts what is fetched from it."""

from __future__ import annotations

import threading
import time
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

PIECE_BYTES = 32 << 10
PACE_S = 0.0005
"""Between two pieces: what a client did not ask for does not lie in buffers on the way to it."""


class Source:
    """Serves the files of a directory; `sent_bytes` counts their bytes, `whole` their reads."""

    def __init__(self, directory: Path) -> None:
        self.sent_bytes = 0
        self.whole = 0
        self._lock = threading.Lock()
        handler = partial(Handler, self, directory)
        self._server = Server(("127.0.0.1", 0), handler)
        self.address = f"http://127.0.0.1:{self._server.server_port}"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def count(self, sent: int, *, whole: bool) -> None:
        """Note an answer."""
        with self._lock:
            self.sent_bytes += sent
            self.whole += whole

    def close(self) -> None:
        """Serve no more."""
        self._server.shutdown()
        self._server.server_close()


class Server(ThreadingHTTPServer):
    """Takes the connections of all processes that come at once."""

    request_queue_size = 256
    daemon_threads = True


class Handler(BaseHTTPRequestHandler):
    """Answers GET and HEAD for files."""

    def __init__(self, source: Source, directory: Path, *arguments: object) -> None:
        self._source = source
        self._directory = directory
        super().__init__(*arguments)

    def do_HEAD(self) -> None:
        self._file()

    def do_GET(self) -> None:
        file = self._file()
        if file is None:
            return
        sent, size = 0, file.stat().st_size
        try:
            with file.open("rb") as opened:
                while piece := opened.read(PIECE_BYTES):
                    self.wfile.write(piece)
                    sent += len(piece)
                    time.sleep(PACE_S)
        except OSError:  # the client wanted the head alone, or was killed
            pass
        self._source.count(sent, whole=sent == size)

    def _file(self) -> Path | None:
        file = self._directory / self.path.lstrip("/")
        if not file.is_file():
            self.send_error(404)
            return None
        self.send_response(200)
        self.send_header("Content-Length", str(file.stat().st_size))
        self.send_header("ETag", f'"{file.stat().st_mtime_ns}"')
        self.end_headers()
        return file

    def log_message(self, *_: object) -> None:
        """Say nothing."""
