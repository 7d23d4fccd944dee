"""Read the data that a page's script contains."""

import base64
import json
import re
import zlib


def data_of(markup):
    """The data of the page's script, parsed."""
    (found,) = re.findall(r'<script type="application/json">(.*?)</script>', markup, re.S)
    data = json.loads(found)
    data["parts"] = [[begin, json.loads(zlib.decompress(base64.b64decode(text), -15))] for begin, text in data["parts"]]
    return data
