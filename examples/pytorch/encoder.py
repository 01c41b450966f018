#!/usr/bin/env python3
"""encoder.py - a small transformer encoder that answers one short text at a time.

    encoder.py plain|graph

plain: every operation is launched by itself, and launching takes longer than computing. graph: the
same operations recorded once as a CUDA graph and launched together. See
docs/tutorial/cuda-graph.md.
"""
import sys

import torch
from torch import nn

from steps import time_steps

STEPS = 20


def make_encoder():
    layer = nn.TransformerEncoderLayer(256, 4, 512, batch_first=True)
    return nn.TransformerEncoder(layer, 8).cuda().eval()


def capture(encoder, text):
    """The encoder's work on `text` as a graph, to be replayed whenever `text` has changed."""
    stream, graph = torch.cuda.Stream(), torch.cuda.CUDAGraph()
    with torch.cuda.stream(stream):
        for _ in range(3):
            encoder(text)
    torch.cuda.synchronize()
    with torch.cuda.graph(graph):
        answer = encoder(text)
    return graph, answer


def main():
    if len(sys.argv) != 2 or sys.argv[1] not in ("plain", "graph"):
        sys.exit("usage: encoder.py plain|graph")
    encoder, text = make_encoder(), torch.randn(1, 32, 256, device="cuda")

    def answer_plainly(_):
        encoder(text)
        torch.cuda.synchronize()

    with torch.no_grad():
        answer = answer_plainly
        if sys.argv[1] == "graph":
            graph, _ = capture(encoder, text)

            def answer(_):
                graph.replay()
                torch.cuda.synchronize()

        time_steps(sys.argv[1], STEPS, answer)


if __name__ == "__main__":
    main()
