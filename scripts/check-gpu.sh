#!/bin/sh
# Check CUDA recording on this machine's GPU, and measure what it costs. $1: the build folder. Needs
# nvcc; with PyTorch also its tests.
#   CHECK_GPU_BENCH=1   print the tables of bench/gpu.py and, with Nsight Compute, bench/kernel.py
#                       too (minutes)
#   CHECK_GPU_PART=1/2  only every other check, from the first
#   NSYS                Nsight Systems to compare with
set -eu
build=$1
here=$(cd "$(dirname "$0")/.." && pwd)
python=${PYTHON:-python3}
nvcc=${NVCC:-$(command -v nvcc || true)}
for d in "${CUDA_HOME:-}" "${CUDA_PATH:-}" /usr/local/cuda /opt/cuda; do
	[ -n "$nvcc" ] || { [ -x "$d/bin/nvcc" ] && nvcc=$d/bin/nvcc; } || true
done
missing=
lacks()
{
	missing="$missing
  $*"
}
ls /dev/nvidia[0-9]* >/dev/null 2>&1 ||
	lacks "an NVIDIA GPU and its driver (there is no /dev/nvidia0)"
[ -n "$nvcc" ] ||
	lacks "nvcc, to build the programs under test: install the CUDA toolkit, or set CUDA_HOME"
if [ -n "$missing" ]; then
	{
		echo "check-gpu: nothing was checked. This machine lacks:$missing"
		echo "'make check' tests what can be tested without (a stand-in takes the place" \
			"of the driver). On a GPU machine these are checked:"
		plain=$("$python" "$here/tests/gpu/check.py" --list | sed 's/^/  /')
		echo "$plain"
		echo "and, where PyTorch sees the GPU:"
		"$python" "$here/tests/gpu/check.py" --list --torch | sed 's/^/  /' |
			grep -vxF "$plain"
	} >&2
	exit 2
fi
programs=$build/gpu
mkdir -p "$programs"
for source in tests/gpu/basic tests/gpu/ranges bench/cuda_storm; do
	"$nvcc" -O2 -arch="${ARCH:-native}" -o "$programs/$(basename $source)" "$here/$source.cu"
done
torch=
"$python" -c 'import torch, sys; sys.exit(not torch.cuda.is_available())' 2>/dev/null &&
	torch=--torch
[ -n "$torch" ] || echo "# PyTorch is not here or sees no GPU: its checks are left out"
status=0
# shellcheck disable=SC2086
"$python" "$here/tests/gpu/check.py" --warpsight "$build/warpsight" --programs "$programs" \
	--part "${CHECK_GPU_PART:-1/1}" $torch ||
	status=$?
if [ -n "${CHECK_GPU_BENCH:-}" ]; then
	set -- --warpsight "$build/warpsight" --programs "$programs" ${NSYS:+--nsys "$NSYS"}
	[ -n "$torch" ] || set -- "$@" --only storm
	"$python" "$here/bench/gpu.py" "$@"
	for ncu in "$(command -v ncu || true)" /usr/local/cuda/bin/ncu; do
		[ ! -x "$ncu" ] || "$python" "$here/bench/kernel.py" --warpsight \
			"$build/warpsight" --ncu "$ncu" -- "$programs/basic" && break
	done
fi
exit $status
