"""Say from a Python program what warpsight is to collect of it, and mark moments.

    import warpsight

    for step, batch in enumerate(loader):
        if step == 10:
            warpsight.start()  # warpsight profile --capture-range=program python3 train.py
        if step == 20:
            warpsight.stop()
        warpsight.mark("step %d" % step)

Without warpsight the functions do nothing. start and stop are in effect when they return.
"""
import ctypes


def _find(name, argument):
    try:
        function = getattr(ctypes.CDLL(None), name)
    except (AttributeError, OSError):
        return lambda value: None
    function.argtypes = [argument]
    function.restype = None
    return function


_collect = _find("warpsight_collect", ctypes.c_int)
_mark = _find("warpsight_mark", ctypes.c_char_p)


def start():
    """Begin a collection of `warpsight profile --capture-range=program`."""
    _collect(1)


def stop():
    """End it."""
    _collect(0)


def mark(text):
    """Mark this moment, as nvtxMark does."""
    _mark(str(text).encode())
