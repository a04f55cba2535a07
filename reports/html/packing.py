"""Put data into a page such that nothing in it is markup: escaped text and JSON, and compressed text in base64."""

import base64
import hashlib
import html
import json
import zlib

from ctrace.reports.escape import plain, without_commands

_MARKUP = {ord(letter): f"\\u{ord(letter):04x}" for letter in "<>&\u2028\u2029"}
_LEVEL = 6


def markup(text: str) -> str:
    """Escape text for HTML; hidden letters become visible, and commands to a CI system are broken."""
    return without_commands(html.escape(plain(text)), "&#58;", "&#35;")


def json_for_script(data: object) -> str:
    """Write JSON for a data block, without a letter that could end the block or begin markup."""
    text = json.dumps(data, ensure_ascii=True, separators=(",", ":")).translate(_MARKUP)
    return without_commands(text, r"\u003a", r"\u0023")


def packed(text: str) -> str:
    """Compress text with zlib, which a browser's `DecompressionStream` calls `deflate`; return it in base64."""
    return base64.b64encode(zlib.compress(text.encode("utf-8", "replace"), _LEVEL)).decode("ascii")


def source_hash(text: str) -> str:
    """Return the hash by which a Content-Security-Policy allows one inline script or style."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode('ascii')}'"
