#!/usr/bin/python3
"""Calls ncclGetUniqueId of the library in the first argument, which starts NCCL's bootstrap network. Needs no GPU."""

import ctypes
import sys

library = ctypes.CDLL(sys.argv[1])
version = ctypes.c_int()
library.ncclGetVersion(ctypes.byref(version))
print(f"NCCL {version.value}")
sys.exit(library.ncclGetUniqueId(ctypes.create_string_buffer(128)))
