"""Prints an SPDX 2.3 document about a binary: its source, the Debian packages of the shared libraries that it is linked to,
and those whose headers were compiled into it.

    sbom.py BINARY VERSION COMMIT SECONDS HEADERS    # SECONDS: the time of the commit; HEADERS: a file with a path a line
"""

import datetime
import hashlib
import json
import os
import re
import subprocess
import sys


def output(*command):
    return subprocess.run(command, capture_output=True, text=True, check=False).stdout


def libraries(binary):
    """The paths of the shared libraries and of the loader, as it finds them."""
    return sorted(set(re.findall(r"(?:=> |^\s+)(/\S+)", output("ldd", binary), re.M)))


def owners(paths):
    """The Debian packages that have these files, by dpkg's database."""
    found = set()
    # Libraries are found below /lib, which is a link to /usr/lib that dpkg does not know.
    names = {os.path.realpath(path) for path in paths} | set(paths)
    names |= {name.removeprefix("/usr") for name in names if name.startswith("/usr/lib")}
    for line in output("dpkg", "-S", *sorted(names)).splitlines():
        found |= {owner.split(":")[0].strip() for owner in line.rsplit(": ", 1)[0].split(",")}
    return sorted(found)


def package(name):
    version, source, architecture = output("dpkg-query", "-W", "-f", "${Version}\t${source:Package}\t${Architecture}\n",
                                           name).splitlines()[0].split("\t")
    return {"SPDXID": "SPDXRef-Package-" + re.sub(r"[^A-Za-z0-9.-]", "-", name), "name": name, "versionInfo": version,
            "supplier": "Organization: Debian", "downloadLocation": "NOASSERTION", "filesAnalyzed": False,
            "licenseConcluded": "NOASSERTION", "licenseDeclared": "NOASSERTION", "copyrightText": "NOASSERTION",
            "sourceInfo": f"built from the Debian source package {source}",
            "externalRefs": [{"referenceCategory": "PACKAGE-MANAGER", "referenceType": "purl",
                              "referenceLocator": f"pkg:deb/debian/{name.replace('+', '%2B')}@{version}?arch={architecture}"}]}


def main(binary, version, commit, seconds, headers):
    with open(binary, "rb") as file:
        digest = hashlib.sha256(file.read()).hexdigest()
    with open(headers, encoding="utf-8") as file:
        compiled = [line.strip() for line in file if line.startswith("/usr/include/")]
    linked = owners(libraries(binary))
    included = [name for name in owners(compiled) if name not in linked]
    product = {"SPDXID": "SPDXRef-evenkeel", "name": "evenkeel", "versionInfo": version, "downloadLocation": "NOASSERTION",
               "filesAnalyzed": False, "licenseConcluded": "Apache-2.0", "licenseDeclared": "Apache-2.0",
               "copyrightText": "NOASSERTION", "primaryPackagePurpose": "APPLICATION",
               "sourceInfo": f"git commit {commit}", "checksums": [{"algorithm": "SHA256", "checksumValue": digest}]}
    packages = {name: package(name) for name in [*linked, *included]}
    relations = [("SPDXRef-DOCUMENT", "DESCRIBES", product["SPDXID"])]
    relations += [(product["SPDXID"], "DYNAMIC_LINK", packages[name]["SPDXID"]) for name in linked]
    relations += [(packages[name]["SPDXID"], "BUILD_DEPENDENCY_OF", product["SPDXID"]) for name in included]
    created = datetime.datetime.fromtimestamp(int(seconds), datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
    json.dump({"spdxVersion": "SPDX-2.3", "dataLicense": "CC0-1.0", "SPDXID": "SPDXRef-DOCUMENT",
               "name": f"evenkeel-{version}", "documentNamespace": f"https://spdx.org/spdxdocs/evenkeel-{version}-{digest[:32]}",
               "creationInfo": {"created": created, "creators": ["Tool: evenkeel-sbom"]},
               "packages": [product, *packages.values()],
               "relationships": [{"spdxElementId": one, "relationshipType": kind, "relatedSpdxElement": other}
                                 for one, kind, other in relations]}, sys.stdout, indent=1)
    print()


if __name__ == "__main__":
    main(*sys.argv[1:])
