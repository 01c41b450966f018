#!/bin/sh
# Check CUDA recording on this machine's GPU, and measure what it costs. $1: the build folder. Needs nvcc; with PyTorch also its tests.
#   CHECK_GPU_BENCH=1   print the table of bench/gpu.py too (minutes)
#   NSYS                Nsight Systems to compare with
set -eu
build=$1
here=$(cd "$(dirname "$0")/.." && pwd)
python=${PYTHON:-python3}
nvcc=${NVCC:-$(command -v nvcc || true)}
for d in "${CUDA_HOME:-}" "${CUDA_PATH:-}" /usr/local/cuda /opt/cuda; do
	[ -n "$nvcc" ] || { [ -x "$d/bin/nvcc" ] && nvcc=$d/bin/nvcc; } || true
done
if ! ls /dev/nvidia[0-9]* >/dev/null 2>&1; then
	echo "check-gpu: this machine has no NVIDIA GPU (no /dev/nvidia*); 'make check' has what can be tested without one" >&2
	exit 2
fi
if [ -z "$nvcc" ]; then
	echo "check-gpu: nvcc is needed to build the programs under test: install the CUDA toolkit, or set CUDA_HOME" >&2
	exit 2
fi
programs=$build/gpu
mkdir -p "$programs"
for source in tests/gpu/basic bench/cuda_storm; do
	"$nvcc" -O2 -arch="${ARCH:-native}" -o "$programs/$(basename $source)" "$here/$source.cu"
done
torch=
"$python" -c 'import torch, sys; sys.exit(not torch.cuda.is_available())' 2>/dev/null && torch=--torch
status=0
# shellcheck disable=SC2086
"$python" "$here/tests/gpu/check.py" --warpsight "$build/warpsight" --programs "$programs" $torch || status=$?
if [ -n "${CHECK_GPU_BENCH:-}" ]; then
	if [ -n "$torch" ]; then
		"$python" "$here/bench/gpu.py" --warpsight "$build/warpsight" --programs "$programs" ${NSYS:+--nsys "$NSYS"}
	else
		"$python" "$here/bench/gpu.py" --warpsight "$build/warpsight" --programs "$programs" --only storm ${NSYS:+--nsys "$NSYS"}
	fi
fi
exit $status
