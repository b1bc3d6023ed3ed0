"""Child processes: the variables that they inherit, and their end with another process.

A worker runs the code of a hundred packages, and its log goes to every store. Therefore these lists
name the allowed variables instead of the known secrets.
"""

from __future__ import annotations

import atexit
import ctypes
import os
import re
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NoReturn

from skymark.machine.private_directory import closed_umask, other_hand

PASSED_NAMES = "SKYMARK_PASS_VARIABLES"
"""Variable with the names, separated by commas, of further variables that the user allows."""

WORKER_PATH_VARIABLE = "SKYMARK_WORKER_PATH"
"""Directories with modules that the user's own code imports, as ``PYTHONPATH`` has them."""

NAMES = frozenset({
    # The user's account, language and time.
    "PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "LANGUAGE", "TZ", "TMPDIR", "TEMP", "TMP",
    "TERM", "COLUMNS", "LINES", "NO_COLOR",
    # Native libraries and certificates.
    "LD_LIBRARY_PATH", "LD_PRELOAD", "DYLD_LIBRARY_PATH", "SSL_CERT_FILE", "SSL_CERT_DIR",
    "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE",
    # Python itself; its path is set by skymark.
    "PYTHONDONTWRITEBYTECODE", "PYTHONPYCACHEPREFIX", "PYTHONHASHSEED", "PYTHONUTF8",
    "PYTHONIOENCODING", "PYTHONWARNINGS", "PYTHONFAULTHANDLER", "PYTHONMALLOC", "PYTHONNOUSERSITE",
    "PYTHONUNBUFFERED", "PYTHONDEVMODE", "PYTHONASYNCIODEBUG", "PYTHONTRACEMALLOC",
    # Data sets on this disk.
    "HF_HOME", "HF_HUB_CACHE", "HF_XET_CACHE", "HF_ASSETS_CACHE", "HF_MODULES_CACHE",
    "HF_HUB_OFFLINE", "HF_ENDPOINT", "HUGGINGFACE_HUB_CACHE",
    "TORCH_HOME", "KERAS_HOME", "MPLCONFIGDIR", "NUMBA_CACHE_DIR", "TRITON_CACHE_DIR",
    # Devices and threads.
    "GOMP_CPU_AFFINITY", "VECLIB_MAXIMUM_THREADS", "ROCR_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES",
    # skymark's own.
    "SKYMARK_CACHE", "SKYMARK_LOCK", "SKYMARK_GPU_FRACTION",
})  # fmt: skip
"""Variables that every library may see."""

PREFIXES = (
    "LC_", "XDG_", "CUDA_", "NVIDIA_", "NCCL_", "XLA_", "JAX_", "TPU_", "LIBTPU_", "MEGASCALE_",
    "TF_", "TORCH_", "PYTORCH_", "DALI_", "RAY_", "NUMBA_", "OMP_", "MKL_", "OPENBLAS_",
    "NUMEXPR_", "KMP_", "BLIS_", "MALLOC_", "TCMALLOC_", "HF_DATASETS_", "COVERAGE_",
)  # fmt: skip
"""Prefixes of library settings that every library may see."""

OTHERS = ("TF_VAR_", "TF_CLI_", "TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD", "RAY_ADDRESS")
"""Excluded prefixes: other programs (Terraform, not TensorFlow), a setting that lets PyTorch run a
checkpoint's code, and a setting that sends Ray to another cluster."""

PROXIES = frozenset({
    "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY",
    "http_proxy", "https_proxy", "all_proxy", "no_proxy",
})  # fmt: skip
"""Proxies, whose addresses may hold a password."""

UV_NAMES = PROXIES.union({
    "CC", "CXX", "CFLAGS", "CXXFLAGS", "CPPFLAGS", "LDFLAGS", "MAKEFLAGS", "PKG_CONFIG_PATH",
    "NETRC",
})  # fmt: skip
"""Additional variables for uv: package indexes and compilers."""

UV_PREFIXES = ("UV_", "PIP_")
UV_CACHE = "UV_CACHE_DIR"

WANDB_PREFIX = "WANDB_"

WORKER_PROXIES = ("HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "http_proxy", "https_proxy", "no_proxy")
"""Proxies that workers may see if the address has no password."""

SECRET_NAME = re.compile(
    r"KEY|TOKEN|SECRET|PASSWORD|PASSWD|PASSPHRASE|CREDENTIAL|COOKIE|_AUTH", re.IGNORECASE
)
"""Parts of names that are never allowed."""

SECRET_VALUE = re.compile(r"://[^/\s@]*@")
"""A user's name, mostly with a password, in an address."""


def worker_variables(variables: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return the variables that library code may see.

    Args:
        variables: the caller's; None for this process's.
    """
    given = os.environ if variables is None else variables
    allowed = {
        name: given[name]
        for name in given
        if _is_allowed(name, NAMES.union(WORKER_PROXIES), PREFIXES)
        and not SECRET_VALUE.search(given[name])
    }
    return allowed | dict(_passed(given))


def uv_variables(variables: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return the variables that uv and the build back-ends that it starts may see.

    The address of an index or a proxy may contain a password, because uv has to send it. Settings
    that consist of a password are left out. A cache that other users may write to is left out, too,
    because uv installs from it; uv then uses its cache in the home directory.

    Args:
        variables: the caller's; None for this process's.
    """
    given = os.environ if variables is None else variables
    addresses = {name: given[name] for name in given if _is_allowed(name, UV_NAMES, UV_PREFIXES)}
    if UV_CACHE in addresses and other_hand(Path(addresses[UV_CACHE])) is not None:
        del addresses[UV_CACHE]
    return worker_variables(given) | addresses


def wandb_variables() -> dict[str, str]:
    """Return the variables that W&B's client may see: its own, its key among them, and proxies."""
    own = {
        name: value
        for name, value in os.environ.items()
        if name.startswith(WANDB_PREFIX) or name in PROXIES or name == "NETRC"
    }
    return worker_variables() | own


def absolute_path(path: str) -> str:
    """Return a ``PYTHONPATH`` with absolute entries.

    Empty entries, which mean the current directory to Python, are dropped.
    """
    return os.pathsep.join(str(Path(entry).absolute()) for entry in path.split(os.pathsep) if entry)


def _is_allowed(name: str, names: frozenset[str], prefixes: tuple[str, ...]) -> bool:
    if SECRET_NAME.search(name) or name.startswith(OTHERS):
        return False
    return name in names or name.startswith(prefixes)


def _passed(given: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Yield the variables that the user allows by name."""
    for name in given.get(PASSED_NAMES, "").split(","):
        if (wanted := name.strip()) in given:
            yield wanted, given[wanted]


KEEPER = Path(__file__).with_name("keeper.py")
KEPT_BYTES = 1 << 16
"""Largest kept end of a program's output."""
LOOK_S = 1.0
"""Interval of checks whether a silent program has ended."""


def run_tied(
    command: Sequence[str],
    variables: Mapping[str, str],
    directory: Path | None = None,
    limit_s: float | None = None,
    *,
    shows: bool = False,
    umask: int | None = None,
) -> subprocess.CompletedProcess[str]:
    """Run a program to its end, and end its remaining processes.

    Args:
        command: the program with its arguments.
        variables: its complete environment.
        directory: its working directory; None for this process's.
        limit_s: longest time; None for no limit.
        shows: whether it writes to this process's output, and none is returned.
        umask: of its files; None for this process's, without write permission for all users.

    Returns:
        Its exit status, 128 and the number for a signal, and the end of its output, standard error
        included.

    Raises:
        subprocess.TimeoutExpired: it took longer and was ended; the error has the end of the
            output.
    """
    with subprocess.Popen(
        tied(command),
        env=variables,
        cwd=directory,
        stdin=subprocess.DEVNULL,
        stdout=None if shows else subprocess.PIPE,
        stderr=None if shows else subprocess.STDOUT,
        umask=closed_umask() if umask is None else umask,
    ) as process:
        try:
            output = _awaited(process, limit_s)
        except BaseException:
            process.terminate()
            raise
    return subprocess.CompletedProcess(command, process.returncode, output)


def tied(command: Sequence[str]) -> Sequence[str]:
    """Return a command whose process tree ends with the thread that starts it (on Linux).

    It also ends when its process gets a request to terminate.
    """
    if sys.platform != "linux":
        return command
    return [sys.executable, "-IS", os.fspath(KEEPER), str(os.getpid()), *command]


def _awaited(process: subprocess.Popen[bytes], limit_s: float | None) -> str:
    """Wait until a process has ended and return the end of its output."""
    deadline = float("inf") if limit_s is None else time.monotonic() + limit_s
    printed, poll = b"", select.poll()
    if process.stdout is not None:
        poll.register(process.stdout, select.POLLIN)
    while True:
        wait_s = max(0.0, min(LOOK_S, deadline - time.monotonic()))
        if process.stdout is None:
            try:
                process.wait(wait_s)
                break
            except subprocess.TimeoutExpired:
                pass
        elif poll.poll(wait_s * 1000):
            data = os.read(process.stdout.fileno(), KEPT_BYTES)
            printed = (printed + data)[-KEPT_BYTES:]
            if not data:
                process.wait()
                break
        elif process.poll() is not None:
            break
        if time.monotonic() >= deadline:
            output = printed.decode(errors="replace")
            raise subprocess.TimeoutExpired(process.args, limit_s or 0.0, output=output)
    return printed.decode(errors="replace")


PARENT_VARIABLE = "SKYMARK_WORKER_PARENT"
"""Environment variable with the engine's process id; the engine may end while a worker starts."""


def leave() -> NoReturn:
    """End this process after the libraries' exit handlers have run.

    Python would also destroy every module and object: half a second of CPU time for PyTorch, more
    than a second for MosaicML Streaming. Running threads end with the process.
    """
    atexit._run_exitfuncs()  # noqa: SLF001 - there is no public way to run them
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)


def die_with(parent: int) -> None:
    """Have the kernel end this process when its parent ends, even if that was killed (prctl(2)).

    Otherwise an adapter that hangs would live on and disturb the next measurement. A fork has to
    request it again.

    Args:
        parent: the process id of the parent, which may have ended already.
    """
    if sys.platform != "linux":
        return
    set_parent_death_signal = 1
    ctypes.CDLL(None).prctl(set_parent_death_signal, signal.SIGKILL)
    if os.getppid() != parent:
        os.kill(os.getpid(), signal.SIGKILL)
