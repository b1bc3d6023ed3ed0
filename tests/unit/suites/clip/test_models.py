"""Models by name: tags, files, globs and lists, and the names that are refused."""

from __future__ import annotations

from hashlib import sha256

import pytest

from skymark.model.errors import UsageError
from skymark.suites.clip.models.choosing import (
    activation_fits,
    chosen_model,
    chosen_models,
    pairs,
    registry,
)

LAION = "ViT-B-32:laion2b_s34b_b79k"


def names(*texts):
    return [one.name for one in chosen_models(texts)]


def test_the_registry_is_that_of_open_clip_with_28_activations_that_do_not_fit():
    known = registry().architectures
    everything = [(name, tag) for name, one in known.items() for tag in one.tags]
    wrong = [pair for pair in everything if not activation_fits(*pair)]
    assert registry().open_clip == "3.3.0"
    assert (len(everything), len(wrong)) == (196, 28)
    assert len(pairs()) == len(names("all")) == 168
    assert all(one.sizes is not None for one in known.values())


def test_a_tag_is_taken_in_any_spelling_and_a_slash_as_a_dash():
    assert names("ViT-B/32:LAION2B-s34b-b79k", "ViT-B-32,laion2b_s34b_b79k") == [LAION]


def test_weights_of_another_activation_are_refused_with_the_architecture_that_fits():
    with pytest.raises(UsageError, match=r"QuickGELU, .*-quickgelu:openai"):
        chosen_model("ViT-B-32:openai")
    with pytest.raises(UsageError, match=r"GELU; .*no architecture"):
        chosen_model("roberta-ViT-B-32:laion2b_s12b_b32k")
    assert names("ViT-B-32*:openai") == ["ViT-B-32-quickgelu:openai"]


@pytest.mark.parametrize("name", ["openai", "ViT-B-32,openai"])
def test_a_list_of_the_peer_gets_the_activation_of_its_tags(name):
    first, *_ = chosen_models([name])
    assert first.name == "ViT-B-32-quickgelu:openai"
    assert "with QuickGELU, " in first.notes[0]
    assert chosen_models(["openclip_base"])[0].notes == ()


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("ViT-B-33:openai", "'ViT-B-32'"),
        ("ViT-B-32:laion2b_s34b", "mean laion2b_s34b_b79k"),
        ("ViT-B-32", "names no weights"),
        ("ViT-B-32:./absent.pt", r"no checkpoint .*absent\.pt"),
        ("hf-hub:laion/CLIP:x", "needs OWNER/NAME"),
        ("local-dir:./absent", r"no .*open_clip_config\.json"),
        ("./absent.py:load", "no Python file"),
        ("./absent.json:./w.pt", "no architecture"),
        ("nothing*", "no model matches"),
    ],
)
def test_a_name_that_is_wrong_is_answered_before_anything_is_read(name, message):
    with pytest.raises(UsageError, match=message):
        chosen_models([name])


def test_a_checkpoint_is_known_by_its_content(tmp_path):
    for folder in ("one", "two"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "epoch_32.pt").write_bytes(folder.encode())
    found = chosen_models([f"RN50:{tmp_path}/{folder}/epoch_32.pt" for folder in ("one", "two")])
    digests = [sha256(folder.encode()).hexdigest() for folder in ("one", "two")]
    assert [one.model.weights.sha256 for one in found] == digests
    assert [one.name for one in found] == [f"RN50:epoch_32@{one[:8]}" for one in digests]
    assert found[0].model.weights.file == str(tmp_path / "one" / "epoch_32.pt")


def test_an_empty_checkpoint_is_refused(tmp_path):
    (tmp_path / "cut.pt").touch()
    with pytest.raises(UsageError, match="is empty"):
        chosen_model(f"RN50:{tmp_path}/cut.pt")


def test_a_file_of_names_has_one_per_line(tmp_path):
    listed = tmp_path / "models.txt"
    listed.write_text(f"# small ones\n{LAION}\n\nRN50-quickgelu,openai\n")
    assert names(str(listed), LAION) == [LAION, "RN50-quickgelu:openai"]
    listed.write_text("# none\n")
    with pytest.raises(UsageError, match="names nothing"):
        names(str(listed))
    with pytest.raises(UsageError, match=r"no file .*absent\.txt"):
        names(str(tmp_path / "absent.txt"))


def test_a_folder_is_known_by_its_content(tmp_path):
    folder = tmp_path / "mine"
    folder.mkdir()
    (folder / "open_clip_config.json").write_text("{}")
    with pytest.raises(UsageError, match="has no weights"):
        chosen_model(f"local-dir:{folder}")
    (folder / "open_clip_model.safetensors").write_bytes(b"weights")
    (folder / "README.md").write_text("not a part of the model")
    first = chosen_model(f"local-dir:{folder}")
    assert first.model.reference == f"local-dir:{folder}"
    assert first.model.files == (str(folder),)
    (folder / "README.md").write_text("changed")
    assert chosen_model(f"local-dir:{folder}").model == first.model
    (folder / "open_clip_model.safetensors").write_bytes(b"others")
    assert chosen_model(f"local-dir:{folder}").name != first.name


def test_a_repository_is_taken_by_its_name():
    for name in ("hf-hub:owner/a-model", "transformers:owner/a-model"):
        found = chosen_model(name)
        assert (found.name, found.model.reference) == (name, name)
        assert found.model.weights.hub == "owner/a-model"


def test_a_python_file_is_read_and_not_run(tmp_path):
    file = tmp_path / "mine.py"
    file.write_text(f"open({str(tmp_path / 'ran')!r}, 'w')\ndef load(): ...\n")
    found = chosen_model(f"{file}:load")
    assert found.model.reference == f"{file}:load"
    with pytest.raises(UsageError, match=r"no function 'lode'.*load"):
        chosen_model(f"{file}:lode")
    file.write_text("def load(:\n")
    with pytest.raises(UsageError, match="no valid Python"):
        chosen_model(f"{file}:load")
    assert not (tmp_path / "ran").exists()


def test_an_architecture_of_the_user_s_own_is_read_and_checked(tmp_path):
    weights, file = tmp_path / "a.pt", tmp_path / "own.json"
    weights.write_bytes(b"weights")
    file.write_text('{"embed_dim": 8, "vision_cfg": {}}')
    with pytest.raises(UsageError, match="lacks text_cfg"):
        chosen_model(f"{file}:{weights}")
    file.write_text('{"model_cfg": {}}')
    with pytest.raises(UsageError, match="local-dir:"):
        chosen_model(f"{file}:{weights}")
    file.write_text('{"embed_dim": 8, "vision_cfg": {}, "text_cfg": {}, "quick_gelu": true}')
    found = chosen_model(f"{file}:{weights}")
    assert found.model.reference == f"{file}:{weights}"
    assert found.model.files == (str(weights), str(file))
    with pytest.raises(UsageError, match="names no weights"):
        chosen_model(str(file))
    taken = file.rename(tmp_path / "ViT-B-32.json")
    with pytest.raises(UsageError, match="rename"):
        chosen_model(f"{taken}:{weights}")
