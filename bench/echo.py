"""A bare echo through three processes: what ZeroMQ, pyzmq and the kernel cost where nothing is done.

`proxy FRONT BACK` and `worker BACK REPLY` are the two processes beside a client that sends a message and waits: a
tier's topology, client DEALER -> ROUTER/ROUTER -> DEALER and back, in the simplest loops that pyzmq's own
guide writes. Both forward frames as they are; the worker answers with the frames of the file REPLY, so that the bytes
each way are those of a real request and a real reply. Limits: nothing is checked, bounded, timed or ended in order:
whoever started them kills them.
"""

from __future__ import annotations

import pickle
import sys
from pathlib import Path

import zmq


def proxy(front_endpoint: str, back_endpoint: str) -> None:
    """Forward between the clients of `front` and the one worker of `back`, which says hello first."""
    context = zmq.Context()
    front, back = context.socket(zmq.ROUTER), context.socket(zmq.ROUTER)
    front.bind(front_endpoint)
    back.bind(back_endpoint)
    worker = back.recv_multipart()[0]
    poller = zmq.Poller()
    poller.register(front, zmq.POLLIN)
    poller.register(back, zmq.POLLIN)
    while True:
        for ready, _ in poller.poll():
            if ready is front:
                back.send_multipart([worker, *front.recv_multipart()])
            else:
                front.send_multipart(back.recv_multipart()[1:])


def worker(back_endpoint: str, reply: list[bytes]) -> None:
    """Answer every message with `reply`."""
    socket = zmq.Context().socket(zmq.DEALER)
    socket.connect(back_endpoint)
    socket.send(b"")
    while True:
        client, *_ = socket.recv_multipart()
        socket.send_multipart([client, *reply])


if __name__ == "__main__":
    if sys.argv[1] == "proxy":
        proxy(sys.argv[2], sys.argv[3])
    else:
        worker(sys.argv[2], pickle.loads(Path(sys.argv[3]).read_bytes()))
