# Sourced by the shell entry points of this folder: finds a Python and a compiler, makes the virtual environment.
#
# It defines functions and changes nothing when sourced. The environment lies in .venv of the checkout, or where
# TOKSEAM_VENV says; it is made anew only when pyproject.toml, CMakeLists.txt or a packaged source changed.

root=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")/.." && pwd)
venv=${TOKSEAM_VENV:-$root/.venv}

# Say something to people, apart from what the tools print.
say() { printf '\n== %s\n' "$*" >&2; }

fail() {
    printf 'error: %s\n' "$*" >&2
    exit 1
}

usable_python() {
    "$1" -c 'import sys, venv, ensurepip; sys.exit(not (3, 10) <= sys.version_info[:2] <= (3, 13))' >/dev/null 2>&1
}

# Print a Python of 3.10 to 3.13: the one that TOKSEAM_PYTHON names, else the first on the PATH.
pick_python() {
    local candidate
    if [[ -n ${TOKSEAM_PYTHON:-} ]]; then
        usable_python "$TOKSEAM_PYTHON" || fail "TOKSEAM_PYTHON=$TOKSEAM_PYTHON is no Python 3.10 to 3.13 with the venv module"
        printf '%s\n' "$TOKSEAM_PYTHON"
        return
    fi
    for candidate in python3.11 python3.12 python3.13 python3.10 python3 python; do
        if usable_python "$candidate"; then
            printf '%s\n' "$candidate"
            return
        fi
    done
    fail "no Python 3.10 to 3.13 with the venv module was found (on Debian and Ubuntu: apt install python3 python3-venv);" \
        "TOKSEAM_PYTHON may name one"
}

need_compiler() {
    local candidate
    for candidate in ${CXX:+"$CXX"} c++ g++ clang++; do
        if command -v "${candidate%% *}" >/dev/null 2>&1; then return; fi
    done
    fail "no C++ compiler was found: install one with C++20 (on Debian and Ubuntu: apt install g++), or set CXX"
}

# One line that changes when what gets installed changes: a hash of the packaged sources.
sources_stamp() {
    (
        cd -- "$root"
        find pyproject.toml CMakeLists.txt README.md kernels broker workers client scripts -type f \
            -not -path '*/__pycache__/*' -not -name '*.so' -print0 | LC_ALL=C sort -z | xargs -0 sha256sum
    ) | sha256sum | cut -d' ' -f1
}

# make_environment EXTRA: an environment with tokseam[EXTRA] installed from this checkout, e.g. make_environment test
#
# $venv/tokseam-stamp holds the stamp and the extras that were installed; extras only ever join.
make_environment() {
    local extra=$1 stamp python built='' extras=''
    stamp=$(sources_stamp)
    if [[ -x $venv/bin/python && -f $venv/tokseam-stamp ]]; then
        read -r built extras <"$venv/tokseam-stamp" || true
        if [[ $built == "$stamp" && ",$extras," == *",$extra,"* ]]; then return; fi
    fi
    [[ ",$extras," == *",$extra,"* ]] || extras=${extras:+$extras,}$extra
    need_compiler
    if [[ ! -x $venv/bin/python ]]; then
        python=$(pick_python) || exit 1
        say "making $venv with $("$python" --version)"
        "$python" -m venv "$venv" || fail "$python could not make $venv"
    fi
    # What is half installed must not count as up to date, but its extras stay wanted.
    printf 'none %s\n' "$extras" >"$venv/tokseam-stamp"
    say "installing tokseam[$extras] into $venv"
    (cd -- "$root" && "$venv/bin/python" -m pip install --quiet --disable-pip-version-check ".[$extras]") ||
        fail "the installation failed; what pip and the compiler said stands above"
    printf '%s %s\n' "$stamp" "$extras" >"$venv/tokseam-stamp"
}

# Name the optional folder of large test data in TOKSEAM_SHARED, where it lies beside this checkout and none is named:
# what is installed can't know of the checkout.
name_shared_folder() {
    if [[ -z ${TOKSEAM_SHARED:-} && -d $root/../shared/data ]]; then
        TOKSEAM_SHARED=$(cd -- "$root/../shared" && pwd)
        export TOKSEAM_SHARED
    fi
}
