"""Multipart messages over a socket with the least work a frame: what every message of a tier pays six times.

pyzmq's own `send_multipart` and `recv_multipart` ask the socket about each frame and combine enumerations; the received
frame itself knows whether more follow. And `send` of pyzmq's sockets wraps that of its backend for options of draft
sockets: without the wrapper a message of three frames takes less than half the time. Limits: no meaning of frames
(protocol.py), no waiting but the socket's own, no asyncio sockets.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import zmq
import zmq.backend

from .protocol import Buffer

#: Plain numbers: to combine pyzmq's enumerations costs more than to send a frame.
DONTWAIT: Final = int(zmq.DONTWAIT)
#: As long as the socket's own timeout says.
WAIT: Final = 0
_SNDMORE: Final = int(zmq.SNDMORE)
_send: Final[Any] = zmq.backend.Socket.send
#: Bytes from which on a frame goes out uncopied; below, copying is cheaper than keeping track.
_UNCOPIED: Final = int(zmq.COPY_THRESHOLD)


def send(socket: zmq.Socket[Any], frames: Sequence[Buffer | zmq.Frame], flags: int = DONTWAIT) -> None:
    """Send one message, all of it or nothing. Raises zmq.Again when there is no room, zmq.ZMQError otherwise.

    Received frames go out as they are.
    """
    more = flags | _SNDMORE
    last = len(frames) - 1
    for number, frame in enumerate(frames):
        small = type(frame) is bytes and len(frame) < _UNCOPIED
        _send(socket, frame, more if number < last else flags, small)


def receive(socket: zmq.Socket[Any], flags: int = DONTWAIT) -> list[bytes]:
    """Receive one message. Raises zmq.Again when there is none (with DONTWAIT, or after the socket's timeout)."""
    receive_frame = socket.recv
    frame = receive_frame(flags, False)
    frames = [frame.bytes]
    while frame.more:
        frame = receive_frame(flags, False)
        frames.append(frame.bytes)
    return frames


def receive_routed(socket: zmq.Socket[Any]) -> tuple[bytes, list[zmq.Frame]]:
    """Receive one message of a ROUTER: its peer, and its frames as they lie in ZeroMQ's memory, to be sent on.

    Raises zmq.Again when there is none.
    """
    receive_frame = socket.recv
    peer = receive_frame(DONTWAIT)  # a ROUTER puts it before what came, which is a frame at least
    frame = receive_frame(DONTWAIT, False)
    frames = [frame]
    while frame.more:
        frame = receive_frame(DONTWAIT, False)
        frames.append(frame)
    return peer, frames
