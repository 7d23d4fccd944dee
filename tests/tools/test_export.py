"""``%export`` writes the right content, and overwrites an existing file only with --force."""

import base64
import hashlib
import json
import os
import re

import pytest

from minijax.repl.batch import new_session
from minijax.tools.documents.document import plain
from minijax.tools.recording import storage


def answer(session, line):
    return plain(session.run_line(line).shown, 300)


@pytest.fixture
def session():
    made = new_session({})
    for line in ("def f(x): return sin(x) * 2. - x", "grad(f)(3.)", "%log grad(f)(3.)", "1 / 0", "'<b>&amp;'"):
        made.run_line(line)
    return made


def test_the_page_has_every_input_and_its_output(session, tmp_path):
    assert "wrote 5 inputs to" in answer(session, f"%export {tmp_path}/it.html")
    page = (tmp_path / "it.html").read_text("utf-8")
    text = re.sub(r"<[^>]*>", "", page)
    for words in (
        "def f(x): return sin(x) * 2. - x",
        "Array(-2.979985",
        "eval ▸ linearize:1",
        "ZeroDivisionError: division by zero",
        "in [5]:",
        "&lt;b&gt;&amp;amp;",
    ):
        assert words in text, words
    assert page.count("<summary>panels</summary>") == 1
    assert page.count('class="minijax mjw ') == 1
    assert "linearize:1 begins for f" in text and text.count("class=") == 0


def test_the_page_may_run_one_script_and_load_nothing(session, tmp_path):
    answer(session, f"%export {tmp_path}/it.html")
    page = (tmp_path / "it.html").read_text("utf-8")
    scripts = re.findall(r"<script>(.*?)</script>", page, re.S)
    assert len(scripts) == 1
    digest = base64.b64encode(hashlib.sha256(scripts[0].encode()).digest()).decode()
    policy = re.search(r'http-equiv="Content-Security-Policy" content="([^"]*)"', page)
    assert policy and "default-src 'none'" in policy[1] and f"script-src 'sha256-{digest}'" in policy[1]
    page = re.sub(r'<script type="application/json">.*?</script>', "", page, flags=re.S)  # the data may quote such text
    assert not re.search(r"\bsrc=|\bhref=|url\(|@import|<link|<iframe", page)


def test_the_data_file_has_every_input(session, tmp_path):
    answer(session, f"%export {tmp_path}/it.json")
    data = json.loads((tmp_path / "it.json").read_text("utf-8"))
    assert data["format"] == "minijax-session" and data["version"] == 1
    inputs = data["inputs"]
    assert [each["number"] for each in inputs] == [1, 2, 3, 4, 5]
    assert inputs[1]["source"] == "grad(f)(3.)" and inputs[1]["showed"].startswith("Array(-2.979985")
    assert inputs[1]["panels"]["stack"] == ["eval", "linearize:1"]
    assert [each["failed"] for each in inputs] == [False, False, False, True, False]
    assert inputs[0]["panels"] is None and inputs[1]["recording"] is None
    loaded = storage.from_json(inputs[2]["recording"])
    assert plain(session.run_line("%log grad(f)(3.)").shown).split("took")[0] in plain(session.log[-1].shown)
    assert loaded.bind_count == session.log[2].recording.bind_count


def test_existing_files_are_overwritten_only_with_force(session, tmp_path):
    path = tmp_path / "a name with spaces.html"
    path.write_text("mine")
    path.chmod(0o640)
    assert "exists; --force writes over it" in answer(session, f"%export {path}")
    assert path.read_text() == "mine"
    assert "wrote" in answer(session, f"%export '{path}' --force")
    assert path.read_text("utf-8").startswith("<!DOCTYPE html>") and path.stat().st_mode & 0o777 == 0o640
    assert os.listdir(tmp_path) == [path.name]
    link = tmp_path / "link.html"
    link.symlink_to(path)
    answer(session, f"%export {link} --force")
    assert link.is_symlink()


def test_a_path_may_start_at_home_and_needs_its_folder(session, tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    assert "wrote" in answer(session, "%export ~/it.json") and (tmp_path / "it.json").exists()
    (tmp_path / "folder.html").mkdir()
    assert "is a folder" in answer(session, "%export ~/folder.html --force")
    assert "there is no folder" in answer(session, "%export ~/none/it.html")


def test_a_failure_leaves_nothing_behind(session, tmp_path, monkeypatch):
    def full(source, target):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", full)
    assert "cannot write" in answer(session, f"%export {tmp_path}/it.html")
    assert os.listdir(tmp_path) == []


def test_an_empty_session_has_nothing_to_write(tmp_path):
    assert "nothing to write yet" in answer(new_session({}), f"%export {tmp_path}/it.html")
    assert "nothing has been recorded in full yet" in answer(new_session({}), f"%export {tmp_path}/it.html --recording")
