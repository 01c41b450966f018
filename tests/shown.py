"""Reports shown by `warpsight view`, asked as the page asks."""
import contextlib
import json
import re
import signal
import subprocess
import urllib.parse
import urllib.request

from tap import PROGRAM


@contextlib.contextmanager
def shown(*reports):
    """The address of a page that shows the reports."""
    view = subprocess.Popen(
        [PROGRAM, "view", "--no-open", *reports],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    try:
        yield re.search(r"http://\S+", view.stdout.readline()).group()
    finally:
        view.send_signal(signal.SIGINT)
        view.wait(60)


def ask_page(base, question):
    parts = urllib.parse.urlsplit(base)
    request = urllib.request.Request(
        "%sapi/%s" % (base, question), headers={"Origin": "http://" + parts.netloc}
    )
    return json.load(urllib.request.urlopen(request, timeout=60))
