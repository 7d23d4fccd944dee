"""Settings accept the right values and are stored in a file; no content of this file can stop a session."""

import os
import stat
import tomllib

import pytest

from minijax.config import config
from minijax.repl import batch
from minijax.tools.documents.document import plain
from minijax.tools.recording.panels import PANELS
from minijax.tools.session.settings import Settings, shown
from minijax.tools.session.settings_file import load, save, settings_path


@pytest.mark.parametrize(
    ("name", "written", "value"),
    [
        ("panels", "on", PANELS),
        ("panels", "off", ()),
        ("panels", "time, stack", ("stack", "time")),
        ("panels", ["jaxpr"], ("jaxpr",)),
        ("full", "tracers", ("tracers",)),
        ("style", "tutorial", "tutorial"),
        ("history", "2_000", 2000),
        ("warm", "off", False),
        ("warm", True, True),
    ],
)
def test_a_setting_takes_a_value(name, written, value):
    settings = Settings()
    settings.set(name, written)
    assert getattr(settings, name) == value
    settings.set(name, shown(value))  # ``set`` accepts the text in which %config shows the value
    assert getattr(settings, name) == value


def test_the_settings_file_is_in_the_config_folder(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    assert settings_path() == tmp_path / "minijax" / "config.toml"
    monkeypatch.setenv("XDG_CONFIG_HOME", "relative")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert settings_path() == tmp_path / ".config" / "minijax" / "config.toml"


def test_a_settings_file_is_read(tmp_path):
    path = tmp_path / "config.toml"
    path.write_text("history = 5\njax_enable_x64 = true\n")
    settings = Settings()
    try:
        assert load(settings, path) == [] and config.jax_enable_x64
    finally:
        config.update("jax_enable_x64", False)
    assert settings.changed() == {"history": 5}


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (b"panels = [", "are not used"),
        (b"\xff\xfe", "are not used"),
        (b"colour = 'x'", "there is no setting 'colour'. Did you mean color?"),
        (b"panels = 3", "panels takes"),
        (b"[panels]\nx = 1", "panels takes"),
        (b"jax_enable_x64 = 'perhaps'", "jax_enable_x64"),
        (b"x = " + b"[" * 100_000, "are not used"),
        (b"#" * (1 << 21), "larger than"),
    ],
)
def test_a_bad_setting_in_the_file_only_warns(tmp_path, content, expected):
    path = tmp_path / "config.toml"
    path.write_bytes(content)
    settings = Settings()
    warnings = load(settings, path)
    assert len(warnings) == 1 and expected in warnings[0] and str(path) in warnings[0]
    assert settings.changed() == {}


def test_saving_keeps_other_content_of_the_file(tmp_path):
    path = tmp_path / "minijax" / "config.toml"
    path.parent.mkdir()
    path.write_text('# mine\nstyle = "jax"  # as in the papers\nunknown = 3\n\n[table]\nstyle = "other"\n')
    settings = Settings()
    settings.set("style", "tutorial")
    settings.set("panels", "jaxpr time")
    settings.set("warm", "off")
    save(settings, path)
    assert path.read_text() == (
        '# mine\nstyle = "tutorial"  # as in the papers\nunknown = 3\n\n'
        'panels = ["jaxpr", "time"]\nwarm = false\n[table]\nstyle = "other"\n'
    )
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert os.listdir(path.parent) == ["config.toml"]
    again = Settings()
    assert len(load(again, path)) == 2  # for each of the two unknown names there is a message
    assert again.changed() == settings.changed()


@pytest.mark.parametrize("content", ["panels = [", 'panels = [\n  "jaxpr",\n]\n', "panels.x = 1\n"])
def test_a_file_that_cannot_be_edited_stays_unchanged(tmp_path, content):
    path = tmp_path / "config.toml"
    path.write_text(content)
    settings = Settings()
    settings.set("panels", "time")
    with pytest.raises(ValueError):
        save(settings, path)
    assert path.read_text() == content and os.listdir(tmp_path) == ["config.toml"]


def test_the_config_command_shows_and_saves_settings(tmp_path):
    session = batch.new_session({})
    session.settings.file = str(tmp_path / "config.toml")
    assert "saved in" not in plain(session.run_line("%config theme dark").shown)
    assert "saved in" in plain(session.run_line("%config save").shown)
    assert tomllib.loads((tmp_path / "config.toml").read_text()) == {"theme": "dark"}
    assert "if %config save keeps it" in plain(session.run_line("%config history 5").shown)
    assert f"%config save keeps them in {tmp_path}" in plain(session.run_line("%config").shown, 200)
    session.settings.file = str(tmp_path / "config.toml" / "below")
    assert "cannot write" in plain(session.run_line("%config save").shown)
    (tmp_path / "config.toml").write_text("[[[")
    session.settings.file = str(tmp_path / "config.toml")
    assert "is unchanged" in plain(session.run_line("%config save").shown)


def test_a_folder_with_the_name_of_the_file_only_warns(tmp_path):
    (warning,) = load(Settings(), tmp_path)
    assert "are not used" in warning
