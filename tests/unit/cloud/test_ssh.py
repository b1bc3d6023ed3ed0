"""SSH with SkyPilot's settings, tried with the real ssh, which prints what it understood."""

from __future__ import annotations

import subprocess

import pytest

from skymark.cloud.sky.ssh import settings_of, ssh_command

SETTINGS = """\
Host mine
  HostName 127.0.0.1
  IdentityFile {key}
  IdentitiesOnly yes
"""


@pytest.mark.needs("ssh")
@pytest.mark.parametrize("key", ["~/.sky/generated/ssh-keys/mine.key", "/elsewhere/sky-key"])
def test_a_key_is_looked_for_where_skypilot_means_it(tmp_path, monkeypatch, key):
    monkeypatch.setenv("HOME", str(tmp_path))  # another than the account's, which ssh goes by
    place = tmp_path / ".sky" / "generated" / "ssh"
    place.mkdir(parents=True)
    (place / "mine").write_text(SETTINGS.format(key=key))
    (place.parent / "ssh-keys").mkdir()
    (place.parent / "ssh-keys" / "mine.key").touch()
    command = [*ssh_command(settings_of("mine")), "-G", "mine"]
    told = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert f"identityfile {key.replace('~', str(tmp_path))}" in told.splitlines()
