#!/bin/sh
# Makes .venv hold what one job needs, and does nothing when it already does.
#
#   scripts/setup.sh demo|test|bench|dev        (dev: everything)
#
# .venv/.ready-JOB holds a checksum of all that the installation depends on, so a change of
# pyproject.toml or constraints.txt is noticed whatever the files' times say.
# .venv/.whole holds the project's path and is away while .venv is being changed: when it is
# missing (an interrupted setup) or names another path (a moved project), .venv is rebuilt.
# Two setups at once wait for each other where flock(1) exists.
set -eu
unset PYTHONHOME PYTHONPATH || true

job=${1:-}
root=$(CDPATH='' cd -- "$(dirname -- "$0")/.." && pwd -P)
venv=$root/.venv
log=$venv/setup.log

case $job in
    demo) tool=andon what='[cli]' group= ;;
    test) tool=pytest what='[all]' group=test ;;
    bench) tool=python what='[all]' group=bench ;;
    dev) tool=ruff what='[all]' group=dev ;;
    *) echo "usage: scripts/setup.sh demo|test|bench|dev" >&2; exit 2 ;;
esac

say() { printf 'setup: %s\n' "$*" >&2; }
die() { say "$*"; exit 1; }

# Some shims exist on PATH and fail when run, so a Python counts only after it has answered.
# A second argument names modules that it must be able to import.
is_usable() {
    "$1" -c "import sys; sys.exit(sys.version_info < (3, 11))" </dev/null >/dev/null 2>&1 &&
        { [ -z "${2:-}" ] || "$1" -c "import $2" </dev/null >/dev/null 2>&1; }
}
version_of() { "$1" -c 'import sys; print("%d.%d" % sys.version_info[:2])' </dev/null 2>/dev/null; }

is_whole() {
    [ "$(cat "$venv/.whole" 2>/dev/null)" = "$root" ] || return 1
    is_usable "$venv/bin/python" 'pip, msgspec' || return 1
    [ -z "${PYTHON:-}" ] || ! is_usable "$PYTHON" ||
        [ "$(version_of "$PYTHON")" = "$(version_of "$venv/bin/python")" ]
}
is_ready() {
    is_whole && [ "$(cat "$venv/.ready-$job" 2>/dev/null)" = "$wanted" ] &&
        [ -x "$venv/bin/$tool" ]
}

find_python() {
    without_pip=
    for candidate in ${PYTHON:+"$PYTHON"} python3.13 python3.12 python3.11 python3 python; do
        if ! is_usable "$candidate"; then
            [ "$candidate" != "${PYTHON:-}" ] ||
                say "PYTHON=$PYTHON is not a working Python 3.11 or newer; looking for another."
        elif is_usable "$candidate" 'ensurepip, venv'; then
            python=$candidate
            return
        else
            without_pip=${without_pip:-$candidate}
        fi
    done
    [ -z "$without_pip" ] || die "$without_pip cannot make virtual environments;" \
        "install its venv package (Debian, Ubuntu: apt install python$(version_of "$without_pip")-venv)."
    die "Andon needs Python 3.11 or newer, and none was found; install one, or name it:" \
        "make PYTHON=/path/to/python3."
}

# All that pip says goes to a log, of which only a failure is shown.
logged() {
    "$@" </dev/null >>"$log" 2>&1 || {
        tail -n 15 "$log" >&2
        die "that failed (it needs the network); the whole log is $log."
    }
}
# Python compiles a module when it is first imported: most of what is installed never is.
pip_install() {
    PIP_USER=0 logged "$venv/bin/python" -m pip install --disable-pip-version-check --no-input \
        --no-compile --constraint constraints.txt "$@"
}

cd "$root"
wanted=$(cat pyproject.toml constraints.txt scripts/setup.sh | cksum)
! is_ready || exit 0

if command -v flock >/dev/null 2>&1; then
    exec 9<pyproject.toml
    flock 9
    ! is_ready || exit 0
fi

if ! is_whole; then
    find_python
    [ ! -e "$venv" ] || say "rebuilding .venv: it is broken, half made, moved or of another Python."
    say "making .venv with Python $(version_of "$python"), for $job ..."
    rm -rf "$venv"
    mkdir "$venv"
    logged "$python" -m venv "$venv"
else
    say "installing into .venv what $job needs ..."
fi

rm -f "$venv/.whole"
# Dependency groups need a newer pip than a fresh Python 3.11 brings; constraints.txt names it.
pip_install --upgrade pip
pip_install --build-constraint constraints.txt --editable ".$what" ${group:+--group "$group"}
[ "$job" != dev ] || others='demo test bench'
for made in "$job" ${others:-}; do
    printf '%s\n' "$wanted" >"$venv/.ready-$made"
done
printf '%s\n' "$root" >"$venv/.whole"
