#!/usr/bin/env python3
"""Print the software bill of materials of an unpacked tarball, as SPDX 2.3 in JSON:
sbom.py FOLDER VERSION EPOCH. sbom.py --check FOLDER compares the bill in the folder with its files.

It names warpsight, each Debian package whose libraries are bundled (from BUNDLED in
share/doc/warpsight: name, version, source package and its version), and every file under
lib/warpsight with its SHA-256. Licences are in the texts beside it. Equal input gives equal
bytes.
"""
import hashlib
import json
import os
import re
import sys
import time

LINE = re.compile(r"(\S+) (\S+) \(source package (\S+) (\S+)\)((?: \S+)*)$")


def digest(path):
    with open(path, "rb") as file:
        return hashlib.sha256(file.read()).hexdigest()


def make_id(kind, name):
    return "SPDXRef-%s-%s" % (kind, re.sub(r"[^A-Za-z0-9.-]", "-", name))


def describe_file(top, path):
    name = os.path.relpath(path, top)
    return {
        "SPDXID": make_id("File", name),
        "fileName": "./" + name,
        "checksums": [{"algorithm": "SHA256", "checksumValue": digest(path)}],
        "licenseConcluded": "NOASSERTION",
        "copyrightText": "NOASSERTION",
    }


def describe_package(name, version, source, source_version):
    purl = "pkg:deb/debian/%s@%s" % (name, version.replace("+", "%2B"))
    return {
        "SPDXID": make_id("Package", name),
        "name": name,
        "versionInfo": version,
        "sourceInfo": "built from Debian's source package %s %s" % (source, source_version),
        "downloadLocation": "NOASSERTION",
        "filesAnalyzed": False,
        "licenseConcluded": "NOASSERTION",
        "licenseDeclared": "NOASSERTION",
        "licenseComments": "see share/doc/warpsight/licenses/" + name,
        "copyrightText": "NOASSERTION",
        "externalRefs": [
            {
                "referenceCategory": "PACKAGE-MANAGER",
                "referenceType": "purl",
                "referenceLocator": purl,
            }
        ],
    }


def describe_warpsight(version):
    return {
        "SPDXID": "SPDXRef-Package-warpsight",
        "name": "warpsight",
        "versionInfo": version,
        "downloadLocation": "NOASSERTION",
        "filesAnalyzed": False,
        "licenseConcluded": "Apache-2.0",
        "licenseDeclared": "Apache-2.0",
        "copyrightText": "NOASSERTION",
    }


def relate(element, kind, other):
    return {"spdxElementId": element, "relationshipType": kind, "relatedSpdxElement": other}


def make_bill(top, version, epoch):
    own = describe_warpsight(version)
    packages, relations = [own], [relate("SPDXRef-DOCUMENT", "DESCRIBES", own["SPDXID"])]
    library = os.path.join(top, "lib", "warpsight")
    files = {n: describe_file(top, os.path.join(library, n)) for n in sorted(os.listdir(library))}
    with open(os.path.join(top, "share", "doc", "warpsight", "BUNDLED")) as bundled:
        for line in bundled:
            name, version_of, source, source_version, names = LINE.match(line.strip()).groups()
            package = describe_package(name, version_of, source, source_version)
            packages.append(package)
            relations.append(relate(own["SPDXID"], "CONTAINS", package["SPDXID"]))
            for file in names.split():
                relations.append(relate(package["SPDXID"], "CONTAINS", files[file]["SPDXID"]))
    whole = hashlib.sha256(
        "".join(f["SPDXID"] + f["checksums"][0]["checksumValue"] for f in files.values()).encode()
    ).hexdigest()
    return {
        "spdxVersion": "SPDX-2.3",
        "dataLicense": "CC0-1.0",
        "SPDXID": "SPDXRef-DOCUMENT",
        "name": os.path.basename(os.path.abspath(top)),
        "documentNamespace": "https://spdx.org/spdxdocs/warpsight-%s-%s" % (version, whole[:32]),
        "creationInfo": {
            "created": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(epoch)),
            "creators": ["Tool: warpsight-sbom.py"],
        },
        "packages": packages,
        "files": list(files.values()),
        "relationships": relations,
    }


def find_differences(top):
    """Differences between the bill in a folder and the files beside it."""
    with open(os.path.join(top, "share", "doc", "warpsight", "sbom.spdx.json")) as file:
        bill = json.load(file)
    said = {f["fileName"][2:]: f["checksums"][0]["checksumValue"] for f in bill["files"]}
    contained = {r["relatedSpdxElement"] for r in bill["relationships"]}
    library = os.path.join(top, "lib", "warpsight")
    for name in sorted(os.listdir(library)):
        path = os.path.join("lib", "warpsight", name)
        if said.pop(path, None) != digest(os.path.join(library, name)):
            yield "%s: another content, or not named" % path
        own = name in ("warpsight", "vulkan_layer.json") or name.startswith("libwarpsight-")
        if not own and make_id("File", path) not in contained:
            yield "%s: of no package" % path
    yield from ("%s: is not there" % path for path in said)


if __name__ == "__main__":
    if sys.argv[1] == "--check":
        differences = list(find_differences(sys.argv[2]))
        print("\n".join(differences))
        sys.exit(bool(differences))
    json.dump(make_bill(sys.argv[1], sys.argv[2], int(sys.argv[3])), sys.stdout, indent=1)
    print()
