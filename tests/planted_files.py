"""Files that must not leave a laptop, as they lie about in folders that people work in."""

from __future__ import annotations

from pathlib import Path

CANARY = "canary-c1f0e7d2"
"""Stands in each of them."""

PRIVATE_KEY = "-----BEGIN OPENSSH " + f"PRIVATE KEY-----\n{CANARY}\n"
PLAIN = f"{CANARY}\n"

SECRETS = {
    ".env": f"WANDB_API_KEY={CANARY}\n",
    ".env.local": f"KEY={CANARY}\n",
    "prod.env": f"KEY={CANARY}\n",
    ".netrc": f"machine example.org login me password {CANARY}\n",
    ".pgpass": f"localhost:5432:db:me:{CANARY}\n",
    "id_rsa": PRIVATE_KEY,
    "id_ed25519": PRIVATE_KEY,
    "id_work": PLAIN,
    "server.pem": PRIVATE_KEY,
    "server.key": PRIVATE_KEY,
    "server.p12": PLAIN,
    ".aws/credentials": f"[default]\naws_secret_access_key = {CANARY}\n",
    ".aws/config": PLAIN,
    ".config/gcloud/application_default_credentials.json": f'{{"refresh_token": "{CANARY}"}}',
    ".kube/config": f"token: {CANARY}\n",
    ".docker/config.json": f'{{"auths": "{CANARY}"}}',
    ".npmrc": "//example.org/:_auth" + f"Token={CANARY}\n",
    ".pypirc": f"password = {CANARY}\n",
    ".git-credentials": f"https://me:{CANARY}@example.org\n",
    ".ssh/known_key": PLAIN,
    "huggingface/token": PLAIN,
    "huggingface/stored_tokens": PLAIN,
    "core": f"\x7fELF{CANARY}",
    "core.4711": f"\x7fELF{CANARY}",
    "notes.txt": PRIVATE_KEY,
    "settings.yaml": f"# {CANARY}\nWANDB_API_KEY: " + "0123456789" * 4 + "\n",
}
"""By their path: credentials, told by name or by content."""

PRIVATE = {
    "people.db": PLAIN,
    "people.sqlite3": PLAIN,
    "dump.sql": PLAIN,
    "data/patients.csv": PLAIN,
    "results/run-1/manifest.json": PLAIN,
    "wandb/run-1/config.yaml": PLAIN,
    "thesis.tex": PLAIN,
}
"""By their path: a user's own affairs, which only they can tell from data of a job."""

PLANTED = {**SECRETS, **PRIVATE}


def plant(directory: Path, name: str, text: str) -> Path:
    """Write one of the files below a directory."""
    path = directory / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def arrived(directory: Path, text: str = CANARY) -> list[str]:
    """Return the files below a directory in which a text stands, and links."""
    return [
        path.relative_to(directory).as_posix()
        for path in sorted(directory.rglob("*"))
        if path.is_symlink() or (path.is_file() and text in path.read_bytes().decode("latin-1"))
    ]
