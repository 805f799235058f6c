#!/usr/bin/env bash
# smtpd.sh PYTHON ARGUMENT…: runs smtpd.py by a Python that has aiosmtpd (setup.sh puts one into target/venv).
set -euo pipefail
exec "$1" "$(dirname "$0")/smtpd.py" "${@:2}"
