import tempfile
from pathlib import Path

FOLDER = Path(tempfile.gettempdir())
# Processes share these files. Each gets only one kind of content, so that every process can read it.
PAGE, DATA = FOLDER / "minijax-test-session.html", FOLDER / "minijax-test-session.json"
RECORDING_PAGE, RECORDING = FOLDER / "minijax-test-recording.html", FOLDER / "minijax-test-recording.json"
CHUNKS = FOLDER / "minijax-test-recording.rec"

GOOD = (
    (f"%export {PAGE} --force", ("wrote ", str(PAGE), " kB")),
    (f"%export {DATA} --session --force", ("wrote ", str(DATA))),
    ("%log grad(f)(3.0)", ("  sin(x) = 0.14112\n",)),
    (f"%export '{RECORDING_PAGE}' --recording --force", ("wrote the recording of grad(f)(3.0) to",)),
    (f"%export {RECORDING} --recording --force", ("wrote the recording",)),
    (f"%export {CHUNKS} --force", ("wrote the recording of grad(f)(3.0) to",)),
    (f"%step --file {CHUNKS} --text", ("  sin(x) = 0.14112\n",)),
    (f"%step --file {RECORDING} --text", ("  sin(x) = 0.14112\n",)),
)

BAD = (
    ("%export", "%export needs FILE: a file whose name ends in .html (a page), .json (data) or .rec (a recording)"),
    (f"%export {FOLDER}/session.txt", "writes a page (FILE.html), data (FILE.json) or a recording (FILE.rec)"),
    (f"%export {FOLDER}/no/such/folder/session.html", "there is no folder"),
    (f"%export {FOLDER}/session.html --session --recording", "give --session or --recording, not both"),
)
