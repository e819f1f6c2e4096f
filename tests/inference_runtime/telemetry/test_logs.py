"""Lines of the log: their forms, where they go, and that nobody can forge one."""

import logging
import re
import sys

import pytest

from inference_runtime.telemetry.logs import LogSettings, RuntimeLog, TritonFormatter

DEFAULT = re.compile(r'[IWE]\d{4} \d\d:\d\d:\d\d\.\d{6} \d+ [\w.]+:\d+\] ".*"')
ISO8601 = re.compile(r'\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ [IWE] \d+ [\w.]+:\d+\] ".*"')


def record(message: str, level=logging.INFO, exc_info=None):
    return logging.LogRecord("x", level, "/a/file.py", 7, message, (), exc_info)


def lines_of(settings: LogSettings, entry: logging.LogRecord) -> list[str]:
    return TritonFormatter(RuntimeLog(settings)).format(entry).splitlines()


@pytest.fixture
def root():
    """The root logger, given back as it was."""
    logger = logging.getLogger()
    before = (logger.handlers[:], logger.level)
    yield logger
    for handler in logger.handlers:
        if handler not in before[0]:
            handler.close()
    logger.handlers[:], level = before
    logger.setLevel(level)


@pytest.mark.parametrize(
    "text",
    [
        "plain",
        'a "quoted" one',
        "a\nI0101 00:00:00.000000 1 x.py:1] forged",
        "\r\x00\x1b[2J\x7f\x85\x9b\u2028\u2029",
        "caf\u00e9 \udc80",
    ],
)
def test_a_message_is_one_line_in_either_form(text):
    for settings, form in (
        (LogSettings(), DEFAULT),
        (LogSettings(format="ISO8601"), ISO8601),
    ):
        (line,) = lines_of(settings, record(text))
        assert form.fullmatch(line), line
        assert not re.search(r"[\x00-\x1f\x7f-\x9f]", line)
        line.encode()


def test_a_traceback_is_indented_and_escaped():
    try:
        raise ValueError("a\nI0101 00:00:00.000000 1 x.py:1] forged")
    except ValueError:
        entry = record("failed", logging.ERROR, sys.exc_info())
    first, *rest = lines_of(LogSettings(), entry)
    assert DEFAULT.fullmatch(first)
    assert first.startswith("E")
    assert rest
    assert all(line.startswith("    ") for line in rest)


def test_without_escaping_messages_are_as_they_came():
    lines = lines_of(LogSettings(escape=False), record("a\nb"))
    assert lines[0].endswith("] a")
    assert lines[1] == "b"


def test_information_and_trouble_go_to_different_streams_and_levels_can_change(root, capsys):
    log = RuntimeLog()
    log.install()
    logger = logging.getLogger("inference_runtime.somewhere")
    logger.debug("too much")
    logger.info("usual")
    logger.warning("strange")
    logger.critical("over")
    out, errors = capsys.readouterr()
    assert "usual" in out
    assert "too much" not in out
    assert [line[0] for line in errors.splitlines()] == ["W", "E"]
    log.change(verbose_level=1)
    log.change(info=False)
    logger.debug("all of it")
    logger.info("not this")
    assert [line[0] for line in capsys.readouterr().out.splitlines()] == ["I"]


def test_a_file_takes_all_lines(root, tmp_path, capsys):
    file = tmp_path / "log"
    RuntimeLog(LogSettings(file=str(file))).install()
    logging.getLogger("x").info("one")
    logging.getLogger("x").error("two \udc80")
    assert len(file.read_text().splitlines()) == 2
    assert capsys.readouterr() == ("", "")


def test_listeners_hear_of_every_change():
    heard = []
    log = RuntimeLog()
    log.listen(lambda settings: heard.append(settings.verbose_level))
    log.change(verbose_level=3)
    assert heard == [0, 3]
