"""Variables that workers and uv inherit: what libraries need, and no secret."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skymark.machine.children import absolute_path, uv_variables, worker_variables

SECRETS = {
    "WANDB_API_KEY": "canary",
    "AWS_ACCESS_KEY_ID": "canary",
    "AWS_SECRET_ACCESS_KEY": "canary",
    "AWS_SESSION_TOKEN": "canary",
    "R2_SECRET_ACCESS_KEY": "canary",
    "HF_TOKEN": "canary",
    "HUGGING_FACE_HUB_TOKEN": "canary",
    "HF_DATASETS_TOKEN": "canary",
    "GITHUB_TOKEN": "canary",
    "LAMBDA_API_KEY": "canary",
    "RUNPOD_AI_API_KEY": "canary",
    "GOOGLE_APPLICATION_CREDENTIALS": "canary",
    "NVIDIA_API_KEY": "canary",
    "RAY_REDIS_PASSWORD": "canary",
    "TF_VAR_cloud": "canary",
    "UV_PUBLISH_TOKEN": "canary",
    "UV_INDEX_INTERNAL_PASSWORD": "canary",
    "PGPASSWORD": "canary",
    "XDG_SESSION_COOKIE": "canary",
    "DATABASE_URL": "postgres://canary",
    "RAY_ADDRESS": "ray://me:canary@head:10001",
    "MY_OWN": "canary",
}
NEEDED = {
    "PATH": "/bin",
    "HOME": "/home/me",
    "LC_ALL": "C.UTF-8",
    "CUDA_VISIBLE_DEVICES": "0",
    "XLA_FLAGS": "--xla",
    "OMP_NUM_THREADS": "4",
    "TF_CPP_MIN_LOG_LEVEL": "2",
    "LD_PRELOAD": "/usr/lib/libjemalloc.so",
    "HF_HOME": "/data/hub",
    "SKYMARK_CACHE": "/data/cache",
}


def test_a_worker_sees_what_libraries_need_and_none_of_the_secrets():
    assert worker_variables(SECRETS | NEEDED) == NEEDED


def test_uv_takes_no_cache_that_other_users_may_write_to(tmp_path):
    chosen = {**NEEDED, "UV_CACHE_DIR": str(tmp_path / "uv")}
    assert uv_variables(chosen) == chosen
    tmp_path.chmod(0o777)
    assert uv_variables(chosen) == NEEDED


def test_uv_sees_the_way_to_its_indexes_and_none_of_the_secrets():
    index = {
        "UV_INDEX_URL": "https://me:needed@packages.invalid/simple",
        "PIP_INDEX_URL": "https://packages.invalid/simple",
        "HTTPS_PROXY": "http://me:needed@proxy.invalid:3128",
        "UV_OFFLINE": "1",
    }
    assert uv_variables(SECRETS | NEEDED | index) == NEEDED | index
    assert worker_variables(index) == {}


def test_a_proxy_without_a_password_reaches_workers_too():
    proxies = {"https_proxy": "http://proxy.invalid:3128", "NO_PROXY": "127.0.0.1"}
    assert worker_variables(proxies) == proxies


def test_a_user_lets_through_what_he_names():
    named = {"SKYMARK_PASS_VARIABLES": "HF_TOKEN, MY_OWN,ABSENT,"}
    passed = {"HF_TOKEN": "canary", "MY_OWN": "canary"}
    assert worker_variables(SECRETS | named) == passed
    assert uv_variables(SECRETS | named) == passed


@given(
    before=st.text("ABCXYZ_", max_size=8),
    word=st.sampled_from(["KEY", "TOKEN", "SECRET", "PASSWORD", "CREDENTIAL", "token", "Secret"]),
    after=st.text("ABCXYZ_", max_size=8),
    prefix=st.sampled_from(["", "RAY_", "HF_DATASETS_", "CUDA_", "SKYMARK_", "COVERAGE_", "UV_"]),
)
def test_no_name_that_says_secret_is_on_a_list(before, word, after, prefix):
    name = f"{prefix}{before}{word}{after}"
    assert name not in worker_variables({name: "canary"})
    assert name not in uv_variables({name: "canary"})


@pytest.mark.parametrize("path", ["", ":", "::/a", "/a:", "lib::/a"])
def test_a_path_has_no_entry_that_means_the_current_directory(path, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    expected = [f"{tmp_path}/lib"] * ("lib" in path) + ["/a"] * ("/a" in path)
    assert absolute_path(path).split(":") == (expected or [""])
