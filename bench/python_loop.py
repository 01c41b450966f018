"""A loop in Python that looks like one of training: layers called by layers, a little arithmetic in
each. Prints the CPU time that it took.
"""
import resource
import sys


class Layer:
    def __init__(self, width):
        self.weights = [i % 7 - 3 for i in range(width)]

    def __call__(self, x):
        return self.forward(x)

    def forward(self, x):
        return sum(w * x for w in self.weights)


class Model:
    def __init__(self, depth):
        self.layers = [Layer(24) for _ in range(depth)]

    def __call__(self, x):
        for layer in self.layers:
            x = layer(x) % 1000
        return x


def step(model, batch):
    return sum(model(x) for x in batch)


def nested(depth, work):
    return nested(depth - 1, work) if depth else work()


def train(steps):
    model, batch = Model(12), list(range(16))
    for _ in range(steps):
        step(model, batch)


nested(15, lambda: train(int(sys.argv[1])))
r = resource.getrusage(resource.RUSAGE_SELF)
print(r.ru_utime + r.ru_stime)
