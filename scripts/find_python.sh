#!/bin/sh
# Print the first Python of a supported version that really runs (a shim may be there and not work).
for name in python3.11 python3.12 python3.13 python3 python; do
    if "$name" -c 'import sys, venv; sys.exit(not (3, 11) <= sys.version_info < (3, 14))' 2>/dev/null; then
        command -v "$name"
        exit 0
    fi
done
