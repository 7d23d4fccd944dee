"""Whether a file was edited after the code in it was loaded: its text is then not the text that runs."""

from __future__ import annotations
import __future__

import functools
import os
import time
from types import CodeType

EDITED = "(the file was edited after this code was loaded)"
_STARTED = time.time()
_ANNOTATIONS = __future__.annotations.compiler_flag


def is_edited(code: CodeType) -> bool:
    """Whether the file of ``code`` no longer compiles to ``code``. False if there is no such file."""
    file = code.co_filename
    try:
        if os.stat(file).st_mtime <= _STARTED:
            return False
        return code not in _codes(file, os.stat(file).st_mtime_ns, code.co_flags & _ANNOTATIONS)
    except OSError:  # an input of the prompt, for example
        return False
    except (SyntaxError, ValueError):
        return True


@functools.lru_cache(8)
def _codes(file: str, changed: int, flags: int) -> frozenset[CodeType]:
    """The code objects that ``file`` compiles to. ``changed`` is the time of its last change."""
    with open(file, "rb") as opened:
        codes = [compile(opened.read(), file, "exec", flags, dont_inherit=True)]
    for code in codes:
        codes += [each for each in code.co_consts if isinstance(each, CodeType)]
    return frozenset(codes)
