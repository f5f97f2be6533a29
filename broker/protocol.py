"""The wire: what a message between client, broker and worker is. Whoever packs or unpacks one does it by this module.

Its parts: requests.py, replies.py and envelopes.py read and write (the headers of a session's steps by layouts.py, for
them alone), digests.py carries histories along, constants.py has the numbers and names.

A message is ZeroMQ multipart: routing frames | header (one msgpack map) | body frames. Body frames are UTF-8 text or
little-endian uint32 numbers; their contents are never looked at here (the worker checks UTF-8). Between broker and
worker one more map, the envelope, precedes the header, so that the broker forwards a request without repacking it.

Request header            meaning                                              on which operations
    v    int              protocol version, 1                                  all
    op   str              operation, see OPERATIONS                            all
    rq   bytes[16]        request id: 8 bytes of the client, 8 of its counter  all
    tn   str              tenant; '' when left out                             all, optional
    dl   int              milliseconds left until the client gives up          all, optional
    tk   str              tokenizer: sha256 hex, or its name                   those that touch text or ids, restore
    fl   int              flags: 1 add_special_tokens, 2 split_special_tokens,
                          4 skip_special_tokens; 0 when left out               encode, batch, count, decode, full,
                                                                               adopt, seed
    ss   str              session id                                           session operations
    rv   int              revision that the change builds on                   append, edit, fork, adopt, seed
    dg   bytes[16]        running digest of the text that it builds on         append, edit, fork, adopt, seed
    at   [int, int]       code points [start, stop) that an edit replaces      edit
    ns   str              id of the session that a fork makes                  fork

Reply header: v, rq (nil where the request's id could not be read), cd (code: 'ok' or one of CODES), and where they
apply ms (message for people), ra (milliseconds to wait before a retry), rv, dg, at ([start, stop) of the ids that the
body replaces), pa (path), ch (code points encoded), n (a count), tz (tokenizers: name, sha256, status, reason, and
demoted: since when, where it is), st (counters), lm (limits).

`adopt` is between workers: one that leaves sends its sessions, each in a `handover` envelope, and the broker sends each
to its next owner, whose session then stands at that very revision. A client that asks for it is refused.

`seed` is how a fresh worker's answer to a `full` becomes the owner's session without a second encode. Its body: the
text, its ids, and the cuts and then the marks of `kernels.engine.Marked`; its request id is that of the `full`. The
fresh worker puts header and last frame behind its reply (envelope: `seeded`); the broker adds the frames that it holds
anyway, the text of the request and the ids of the reply, and places the seed with the owner as it passes the reply on.
A client that asks for it is refused.

`restore` is an operator's: it lifts a tokenizer's demotion to the reference (`Demotion`) on every worker; `n` in its
reply is 1, or 0 where there was nothing to lift. Until there is authentication, whoever reaches the endpoint may ask.

The headers of an append and of a reply with a patch have their keys in one order and their values in one width, so that
they are read without parsing a map (layouts.py): v, op, tn, tk, ss, rq, dl, rv, dg; and v, cd, pa, rq, rv, dg, ch, at.
A map in another order says the same and is answered the same.

Digests are chained blake2b-16 (`digest_full`, `digest_change`): both sides compute one in time of the change.

Limits: no sockets, no clock, no policy (routing.py), no meaning of text (workers/).
"""

from __future__ import annotations

from .constants import (
    ADD_SPECIAL_TOKENS,
    BAD_REQUEST,
    BUSY,
    CODES,
    DIGEST_BYTES,
    FLAGS_ALL,
    FRAMES_MAX,
    HEADER_MAX_BYTES,
    INTERNAL,
    IPC_PATH_MAX_BYTES,
    MESSAGE_MAX_BYTES,
    OK,
    REPLY_EXPANSION,
    REQUEST_ID_BYTES,
    SESSION_ID_MAX_BYTES,
    SHUTTING_DOWN,
    SKIP_SPECIAL_TOKENS,
    SPLIT_SPECIAL_TOKENS,
    STALE,
    TENANT_MAX_BYTES,
    TOKENIZER_MAX_BYTES,
    TOO_LARGE,
    UNAUTHORIZED,
    UNKNOWN_TOKENIZER,
    VERSION,
)
from .digests import (
    digest_change,
    digest_full,
)
from .envelopes import (
    ENVELOPES,
    REASON_MAX_BYTES,
    Demotion,
    Envelope,
    done_job,
    pack_done,
    pack_envelope,
    pack_work,
    unpack_envelope,
    work_job,
)
from .meeting import (
    default_endpoint,
    runtime_directory,
)
from .messages import (
    Buffer,
    WireError,
)
from .replies import (
    Reply,
    pack_reply,
    unpack_reply,
)
from .requests import (
    FIELDS,
    OPERATIONS,
    Operation,
    Request,
    SessionKey,
    pack_request,
    unpack_request,
)

__all__ = [
    "ADD_SPECIAL_TOKENS",
    "BAD_REQUEST",
    "BUSY",
    "CODES",
    "DIGEST_BYTES",
    "ENVELOPES",
    "FIELDS",
    "FLAGS_ALL",
    "FRAMES_MAX",
    "HEADER_MAX_BYTES",
    "INTERNAL",
    "IPC_PATH_MAX_BYTES",
    "MESSAGE_MAX_BYTES",
    "OK",
    "OPERATIONS",
    "REASON_MAX_BYTES",
    "REPLY_EXPANSION",
    "REQUEST_ID_BYTES",
    "SESSION_ID_MAX_BYTES",
    "SHUTTING_DOWN",
    "SKIP_SPECIAL_TOKENS",
    "SPLIT_SPECIAL_TOKENS",
    "STALE",
    "TENANT_MAX_BYTES",
    "TOKENIZER_MAX_BYTES",
    "TOO_LARGE",
    "UNAUTHORIZED",
    "UNKNOWN_TOKENIZER",
    "VERSION",
    "Buffer",
    "Demotion",
    "Envelope",
    "Operation",
    "Reply",
    "Request",
    "SessionKey",
    "WireError",
    "default_endpoint",
    "digest_change",
    "digest_full",
    "done_job",
    "pack_done",
    "pack_envelope",
    "pack_reply",
    "pack_request",
    "pack_work",
    "runtime_directory",
    "unpack_envelope",
    "unpack_reply",
    "unpack_request",
    "work_job",
]
