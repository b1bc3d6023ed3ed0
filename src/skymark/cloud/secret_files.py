"""Files that hold credentials, told by their names or by their content.

The only list of them: nothing on it is sent to a machine, however it was named.
"""

from __future__ import annotations

import re
from fnmatch import fnmatchcase
from pathlib import Path, PurePosixPath

DIRECTORIES = (
    ".aws",
    ".azure",
    ".cloudflare",
    ".config/gcloud",
    ".config/vastai",
    ".docker",
    ".gnupg",
    ".kube",
    ".lambda_cloud",
    ".runpod",
    ".sky",
    ".ssh",
)
"""Directories of credentials, wherever they lie."""

NAMES = (
    ".boto",
    ".dockercfg",
    ".env*",
    ".git-credentials",
    ".htpasswd",
    ".my.cnf",
    ".netrc",
    ".npmrc",
    ".pgpass",
    ".pypirc",
    ".s3cfg",
    "*.env",
    "*.jks",
    "*.kdbx",
    "*.key",
    "*.keystore",
    "*.p12",
    "*.pem",
    "*.pfx",
    "*.ppk",
    "*.tfstate",
    "*_token",
    "_netrc",
    "application_default_credentials.json",
    "client_secret*.json",
    "core",
    "core.[0-9]*",
    "credentials",
    "credentials.*",
    "id_[!.]*",
    "kubeconfig",
    "lambda_keys",
    "service[-_]account*.json",
    "stored_tokens",
    "token",
    "token.json",
    "vast_api_key",
)
"""Names of files with credentials, in lower case, and of core dumps, which may hold any."""

DATA = (".csv", ".py", ".pyi", ".parquet", ".rst", ".md")
"""Endings of files that are named ``id_map.csv`` or ``credentials.py`` without holding any."""

CONTENTS = {
    "a private key": rb"-----BEGIN (?:[A-Z0-9]+ )*PRIVATE KEY(?: BLOCK)?-----"
    rb"|[P]uTTY-User-Key-File-",
    "a key of AWS": rb"\b(?:AKIA|ASIA)[0-9A-Z]{16}\b",
    "a secret key of AWS": rb"(?i)aws_secret_access_key['\"]?\s*[=:]\s*['\"]?[0-9a-z/+]{40}",
    "a key of Google": rb"\bAIza[0-9A-Za-z_-]{35}\b",
    "a token of Hugging Face": rb"\bhf_[A-Za-z]{34}\b",
    "a token of GitHub": rb"\b(?:gh[pousr]_[0-9A-Za-z]{36}|github_pat_[0-9A-Za-z_]{60})",
    "a token of GitLab": rb"\bglpat-[0-9A-Za-z_-]{20}",
    "a token of Slack": rb"\bxox[abprs]-[0-9A-Za-z-]{10}",
    "a key of W&B": rb"(?i)(?:wandb_api_key['\"]?\s*[=:]\s*['\"]?"
    rb"|api\.wandb\.ai\s[^#]{0,80}password\s+)(?:(?:local-)?[0-9a-f]{40}|wandb_v1_\w{20})",
    "a token of a package registry": rb"\bpypi-[0-9A-Za-z_-]{50}|\bnpm_[0-9A-Za-z]{36}\b"
    rb"|_authToken=\S{8}",
}
"""Credentials in a file of any name."""

LOOK_BYTES = 1 << 20
"""Of a file's content: credentials lie in small files, and data sets are large."""
_ELF, _ELF_TYPE, _ELF_CORE = b"\x7fELF", slice(16, 18), ({b"\x04\x00", b"\x00\x04"})


def secret_in(place: str, path: Path) -> str | None:
    """Return the reason why a file holds credentials; None where it does not seem to.

    Args:
        place: the file's original path.
        path: the file or its copy, whose content is read.
    """
    if directory := secret_directory_in(place):
        return f"{directory}/ is a directory of credentials"
    own_name = PurePosixPath(place.casefold()).name
    for name in NAMES:
        if fnmatchcase(own_name, name) and not own_name.endswith(DATA):
            return f"its name is that of a file with credentials ({name})"
    with path.open("rb") as file:
        head = file.read(LOOK_BYTES)
    if head.startswith(_ELF) and head[_ELF_TYPE] in _ELF_CORE:
        return "it is a core dump, which may hold any key"
    for kind, pattern in CONTENTS.items():
        if re.search(pattern, head):
            return f"{kind} stands in it"
    return None


def secret_directory_in(place: str) -> str | None:
    """Return the directory of credentials that a file lies in, by its path; None for none."""
    parts = PurePosixPath(place.casefold()).parts
    for directory in DIRECTORIES:
        names = PurePosixPath(directory).parts
        if any(parts[at : at + len(names)] == names for at in range(len(parts) - len(names))):
            return directory
    return None
