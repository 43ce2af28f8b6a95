#!/usr/bin/env bash
# Checks for the system programs that the demo needs, and installs those that are missing if it may.
set -euo pipefail

# program=package that brings it
needed=(apt-get=apt dpkg-deb=dpkg)

missing=()
for each in "${needed[@]}"; do
  command -v "${each%%=*}" >/dev/null || missing+=("${each##*=}")
done
[ ${#missing[@]} -eq 0 ] && exit 0

if ! command -v apt-get >/dev/null; then
  echo 'error: the demo needs apt-get and dpkg-deb (Debian, Ubuntu): its human speech comes in Debian
packages, which it fetches and unpacks below .demo/ without installing any. Run it in a container:
  docker run --rm -it -v "$PWD:/datalake" -w /datalake python:3.11-bookworm make demo VENV=.venv-demo' >&2
  exit 1
fi

if [ "$(id -u)" -eq 0 ]; then
  apt-get -qq update && apt-get -qq install -y --no-install-recommends "${missing[@]}"
else
  echo "error: missing system packages. Install them with:" >&2
  echo "  sudo apt-get update && sudo apt-get install -y --no-install-recommends ${missing[*]}" >&2
  exit 1
fi
