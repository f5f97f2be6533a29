"""The numbers and names of the wire: what a message may hold at most, its flags, its codes.

Whoever needs no message needs no more than this: an error's code, the longest session id. Others read them as
protocol.py's.
"""

from __future__ import annotations

from typing import Final

#: Counts up when a peer of the last version could misread a message. Independent of the package's version.
VERSION: Final = 1

#: Random per client (8 bytes: no two of 2^32 clients meet by chance) and counting within it (8 bytes).
REQUEST_ID_BYTES: Final = 16
#: blake2b's length here: 128 bits, so that no two histories meet by chance.
DIGEST_BYTES: Final = 16
#: UTF-8 bytes. Three UUIDs in hex with their separators are 110; twice that leaves room for prefixes.
SESSION_ID_MAX_BYTES: Final = 256
#: UTF-8 bytes. A tenant is an account's name or a UUID.
TENANT_MAX_BYTES: Final = 128
#: UTF-8 bytes. A SHA-256 in hex is 64; names follow model names.
TOKENIZER_MAX_BYTES: Final = 128
#: Bytes. All keys at their limits are under 1,024; 64 times that, so that a field which is too long is named, with the
#: request's id, while parsing a header stays well under a millisecond.
HEADER_MAX_BYTES: Final = 64 * 1024
#: Header, text, ids, marks: no request has more.
FRAMES_MAX: Final = 4
#: Bytes of a whole request by default: 64 MiB, that is 16 M characters of 4 bytes, or the longest session that can be
#: sent again in full.
MESSAGE_MAX_BYTES: Final = 64 * 1024 * 1024
#: A token has at least one byte of text, its id four bytes: a reply's body is at most 4 times its request's (8 for
#: offsets, which are two numbers).
REPLY_EXPANSION: Final = 8
#: Bytes a ZeroMQ ipc path may have: sun_path is 108 with its NUL.
IPC_PATH_MAX_BYTES: Final = 107

ADD_SPECIAL_TOKENS: Final = 1
SPLIT_SPECIAL_TOKENS: Final = 2
SKIP_SPECIAL_TOKENS: Final = 4
FLAGS_ALL: Final = 7

OK: Final = "ok"
STALE: Final = "stale"
BUSY: Final = "busy"
TOO_LARGE: Final = "too_large"
BAD_REQUEST: Final = "bad_request"
UNKNOWN_TOKENIZER: Final = "unknown_tokenizer"
UNAUTHORIZED: Final = "unauthorized"
SHUTTING_DOWN: Final = "shutting_down"
INTERNAL: Final = "internal"

#: Every way in which a request is refused; client/errors.py has one class for each.
CODES: Final = frozenset(
    {STALE, BUSY, TOO_LARGE, BAD_REQUEST, UNKNOWN_TOKENIZER, UNAUTHORIZED, SHUTTING_DOWN, INTERNAL}
)
