#!/usr/bin/env python3
"""Ask the page's server for the page, as a browser would: ask-page.py WARPSIGHT [REPORT]. Fails
when it does not come, or when the server does not end by SIGINT."""
import re
import signal
import subprocess
import sys
import urllib.request

server = subprocess.Popen(
    [sys.argv[1], "view", "--no-open", *sys.argv[2:]],
    stdin=subprocess.DEVNULL,
    stdout=subprocess.PIPE,
    stderr=subprocess.STDOUT,
    text=True,
)
try:
    said = ""
    while not (address := re.search(r"http://\S+", said)):
        line = server.stdout.readline()
        if not line:
            sys.exit("no address: " + said)
        said += line
    page = urllib.request.urlopen(address.group(), timeout=60).read()
    if b"<html" not in page.lower():
        sys.exit("no page: %r" % page[:200])
finally:
    server.send_signal(signal.SIGINT)
    if server.wait(60) not in (0, 130):
        sys.exit("ended by %d" % server.returncode)
