# SPDX-License-Identifier: Apache-2.0
"""No call of a probed function reaches an address that is not probed.

usage: proc_address.py RANKTRACE [LIBCUDA]

libcudart, NCCL and PyTorch ask cuGetProcAddress for the driver's functions, by base name, CUDA version and default
stream. For every probed base name, each version from 11.0 to 13.9 and both streams, the address it hands out must be
that of an exported symbol that is probed, as that function and in that tier (`ranktrace record --list-probes`). Needs a
driver, no GPU. Exit status: 0 all inside, 1 some outside (printed), 77 no libcuda here. """
import ctypes
import json
import re
import subprocess
import sys

VERSIONS = [1000 * major + 10 * minor for major in (11, 12, 13) for minor in range(10)]
FLAGS = {"legacy": 1, "per_thread": 2}  # CU_GET_PROC_ADDRESS_*_DEFAULT_STREAM


class Info(ctypes.Structure):
    _fields_ = [("file", ctypes.c_char_p), ("base", ctypes.c_void_p), ("name", ctypes.c_char_p),
                ("addr", ctypes.c_void_p)]


def probes(ranktrace):
    """Tier of each probed driver symbol."""
    out = subprocess.run([ranktrace, "record", "--list-probes", "--json"], capture_output=True, text=True, check=True)
    rows = map(json.loads, out.stdout.splitlines())
    return {r["symbol"]: r["tier"] for r in rows if r["tracer"] == "cuda" and r["side"] == "entry"}


def base_name(symbol):
    return re.sub(r"_v\d+$", "", re.sub(r"_pt[sd][sz]$", "", symbol))


def symbol_at(address):
    info = Info()
    found = ctypes.CDLL(None).dladdr(ctypes.c_void_p(address), ctypes.byref(info))
    if not found or not info.name:
        return "no exported symbol"
    return info.name.decode() if info.addr == address else f"inside {info.name.decode()}"


def address_of(lib, symbol):
    try:
        return ctypes.cast(getattr(lib, symbol), ctypes.c_void_p).value
    except AttributeError:
        return None


def ask(lib, name, version, flags):
    address, status = ctypes.c_void_p(), ctypes.c_int()
    rc = lib.cuGetProcAddress_v2(name.encode(), ctypes.byref(address), version, ctypes.c_uint64(flags),
                                 ctypes.byref(status))
    return address.value if not rc and not status.value else None


def is_probed(name, tiers, symbols):
    """Is one of the symbols at an address this function? cuGraphInstantiate is cuGraphInstantiateWithFlags from 12.0
    on."""
    return any(tier in tiers and base_name(symbol).startswith(name) for symbol, tier in symbols.items())


def main():
    if len(sys.argv) not in (2, 3):
        sys.exit(__doc__)
    try:
        lib = ctypes.CDLL(sys.argv[2] if len(sys.argv) == 3 else "libcuda.so.1", mode=ctypes.RTLD_GLOBAL)
    except OSError as e:
        print(f"skipped: {e}")
        sys.exit(77)
    lib.cuInit(0)
    tiers = probes(sys.argv[1])
    bases = {}
    for symbol, tier in tiers.items():
        bases.setdefault(base_name(symbol), set()).add(tier)
    inside = {}
    for symbol, tier in tiers.items():
        address = address_of(lib, symbol)
        if address:
            inside.setdefault(address, {})[symbol] = tier
    asked = answered = 0
    outside = {}
    for name, wanted in sorted(bases.items()):
        for version in VERSIONS:
            for mode, flags in FLAGS.items():
                address = ask(lib, name, version, flags)
                asked += 1
                answered += address is not None
                if address and not is_probed(name, wanted, inside.get(address, {})):
                    outside.setdefault((name, address), []).append((version, mode))
    for (name, address), how in sorted(outside.items()):
        other = inside.get(address)
        what = f"probed as {other}" if other else f"not probed: {symbol_at(address)}"
        print(f"OUTSIDE {name} -> {what}, for CUDA {how[0][0]}..{how[-1][0]}, {sorted({m for _, m in how})}")
    exported = sum(address_of(lib, s) is not None for s in tiers)
    print(f"{len(bases)} names, {asked} questions, {answered} addresses, {len(outside)} outside; {exported} of "
          f"{len(tiers)} probed "
          "symbols are exported here")
    if not answered:
        print("no address at all: this proves nothing")
    sys.exit(1 if outside or not answered else 0)


main()
