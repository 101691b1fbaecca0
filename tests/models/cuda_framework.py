"""A framework by nothing but the GPU's driver, or by what `standin_cuda.c` pretends: models import it as `fakelib`."""

import ctypes
import importlib
import sys

import numpy as np

_here = next(name for name in ("_charonia_child", "charonia.backends.python.child") if name in sys.modules)
cuda = importlib.import_module(_here + ".cuda")
dlpack = importlib.import_module(_here + ".dlpack")
datatypes = importlib.import_module(_here + ".datatypes")

DEVICE = (2, 0)
_download = cuda.download
_counted = [0]


def _counting(*arguments):
    _counted[0] += 1
    return _download(*arguments)


cuda.download = _counting


def _call(name, *arguments):
    with cuda._context(0) as driver:
        driver(name, *arguments)


class Array:
    """`skip`: elements that lie before it in its allocation, as in a framework's cache; `pool`: of a kind that can't be
    given to other processes."""

    def __init__(self, array, skip=0, pool=False):
        self.shape, self.dtype, self.nbytes = array.shape, array.dtype, array.nbytes
        skipped, base = skip * array.itemsize, ctypes.c_uint64()
        size = ctypes.c_size_t(skipped + array.nbytes)
        if pool:
            _call("cuMemAllocAsync", ctypes.byref(base), size, None)
        else:
            _call("cuMemAlloc_v2", ctypes.byref(base), size)
        self._base = base
        self.address = base.value + skipped
        host = np.ascontiguousarray(array)
        _call("cuMemcpyHtoD_v2", ctypes.c_uint64(self.address), ctypes.c_void_p(host.ctypes.data), size_of(host))

    def __del__(self):
        if hasattr(self, "_base"):
            _call("cuMemFree_v2", self._base)

    def __dlpack_device__(self):
        return DEVICE

    def __dlpack__(self, **_):
        datatype = datatypes.name_of_type(self.dtype)
        return dlpack.export_memory(self.address, DEVICE, self.shape, self.dtype, datatype, self)


def look(tensor):
    """A tensor's elements, as code on the device sees them."""
    datatype, (shape, memory) = dlpack.take("looked at", tensor)
    seen = np.empty(shape, datatypes.TYPE_OF_NAME[datatype])
    _call("cuMemcpyDtoH_v2", seen.ctypes.data, memory.address, seen.nbytes)
    return seen


def downloads():
    """Copies to the host that the server's code has made in this process."""
    return _counted[0]


def opened():
    """How much of other processes' memory is open here; only the stand-in knows."""
    return cuda._driver()._library.standin_opened()


def size_of(array):
    return ctypes.c_size_t(array.nbytes)
