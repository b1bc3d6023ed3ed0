"""Directories that only this user can change, for code, keys and locks."""

from __future__ import annotations

import grp
import os
import pwd
import re
import stat
from collections.abc import Iterable
from pathlib import Path

from skymark.model.errors import UsageError

OTHERS_MAY_WRITE = stat.S_IWGRP | stat.S_IWOTH
MOST_LINKS = 40
"""Most links on the way to a file; more are a loop, as for the kernel."""
ACCESS_LIST = "system.posix_acl_access"


def private_directory(candidates: Iterable[Path]) -> Path:
    """Return the first directory that only this user can access; made if absent.

    No other user may write to the directories above it, either.

    Raises:
        UsageError: all are links or belong to other users.
    """
    tried = []
    for directory in candidates:
        try:
            directory.mkdir(mode=0o700, exist_ok=True)
            status = directory.lstat()
            fault = other_hand(directory)
        except OSError as error:
            tried.append(f"{directory}: {error.strerror}")
            continue
        if not stat.S_ISDIR(status.st_mode):
            tried.append(f"{directory}: no directory")
        elif status.st_uid != os.getuid():
            tried.append(f"{directory}: others may write there")
        elif fault is not None:
            tried.append(f"{directory}: {fault}")
        else:
            directory.chmod(0o700)
            return directory
    raise UsageError(
        f"there is no directory of your own ({'; '.join(tried)}); remove what is there"
    )


def own_folder(directory: Path) -> Path:
    """Return a directory that only this user and root can change; made if absent.

    Other users may read it, as far as the umask allows.

    Raises:
        UsageError: another user can change it, or it cannot be made.
    """
    missing = [path for path in (directory, *directory.parents) if not os.path.lexists(path)]
    try:
        for path in reversed(missing):
            path.mkdir(mode=0o755, exist_ok=True)
    except OSError as error:
        raise UsageError(
            f"cannot make {directory}: {error.strerror}; name a directory of your own with "
            "SKYMARK_CACHE"
        ) from error
    require_own(directory)
    return directory


def require_own(path: Path, *, missing_ok: bool = False) -> None:
    """Refuse a path that another user can change.

    Args:
        path: the path.
        missing_ok: accept a path that does not exist. Another user may then make it, in a directory
            with the sticky bit, before this process looks again.

    Raises:
        UsageError: another user can change it, or it does not exist; the message names the
            directory.
    """
    if (fault := other_hand(path, missing_ok=missing_ok)) is not None:
        raise UsageError(
            f"{fault}, so skymark takes no code or keys from {path}; remove it, or name a "
            "directory of your own with SKYMARK_CACHE"
        )


def closed_umask() -> int:
    """Return this process's umask, without write permission for all users.

    Linux reports it (proc_pid_status(5)). Elsewhere it is set and restored; a file that another
    thread makes at that moment is private.
    """
    try:
        status = Path("/proc/self/status").read_text()
        umask = int(re.search(r"^Umask:\s*([0-7]+)$", status, re.MULTILINE)[1], 8)  # type: ignore[index]
    except (OSError, TypeError):
        umask = os.umask(0o077)
        os.umask(umask)
    return umask | OTHERS_MAY_WRITE


def other_hand(path: Path, *, missing_ok: bool = True) -> str | None:
    """Return the first part of a path that another user can change, in words.

    Links are followed. A directory's owner, and each user with write permission, can replace its
    entries. With the sticky bit, only the owner of an entry can.

    Returns:
        None if only this user and root can change the path, or if it is missing and may be.
    """
    owners = _trusted_owners()
    place, links = Path("/"), 0
    left = list(reversed(path.absolute().parts[1:]))
    while True:
        try:
            status = place.lstat()
        except FileNotFoundError:
            return None if missing_ok else f"{place} was removed meanwhile"
        except PermissionError:
            return f"you may not look into {place.parent}"
        if status.st_uid not in owners:
            return f"{place} belongs to {name_of_user(status.st_uid)}"
        if stat.S_ISLNK(status.st_mode):
            links += 1
            if links > MOST_LINKS:
                return f"{place} leads in a circle"
            target = place.readlink()
            left += reversed(target.parts[1:] if target.is_absolute() else target.parts)
            place = Path("/") if target.is_absolute() else place.parent
        elif _others_may_write(place, status):
            return f"others may write to {place} (mode {stat.S_IMODE(status.st_mode):o})"
        if not left:
            return None
        part = left.pop()
        place = place.parent if part == ".." else place / part


def _trusted_owners() -> set[int]:
    """Return the ids of this user and root; in a user namespace root may have nobody's id."""
    owners = {0, os.getuid()}
    try:
        if Path("/proc/self/uid_map").read_text().split() != ["0", "0", f"{2**32 - 1}"]:
            owners.add(int(Path("/proc/sys/kernel/overflowuid").read_text()))
    except OSError:  # no Linux
        pass
    return owners


def _others_may_write(place: Path, status: os.stat_result) -> bool:
    mode = status.st_mode
    if stat.S_ISDIR(mode) and mode & stat.S_ISVTX:
        return False
    if mode & stat.S_IWOTH:
        return True
    return bool(mode & stat.S_IWGRP) and not _is_own_group(place, status.st_gid)


def _is_own_group(place: Path, group: int) -> bool:
    """Return whether a group contains only this user or root, as most systems make per user."""
    try:
        user, members = pwd.getpwuid(os.getuid()), grp.getgrgid(group)
    except KeyError:
        return group == 0
    is_own = group == 0 or (group == user.pw_gid and members.gr_name == user.pw_name)
    is_alone = set(members.gr_mem) <= {user.pw_name, "root"}
    return is_own and is_alone and ACCESS_LIST not in os.listxattr(place)


def name_of_user(user: int) -> str:
    """Return the name of a user; ``user 1000`` for an unknown one."""
    try:
        return pwd.getpwuid(user).pw_name
    except KeyError:
        return f"user {user}"
