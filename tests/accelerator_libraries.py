"""Sources of modules that stand for torch and JAX on a machine with accelerators, or without."""

WORKING_TORCH = """
class version: cuda = "13.2"
class cuda:
    def device_count(): return 2
    def get_device_name(number): return "A Torch GPU"
__version__ = "2"
class _Number:
    def sum(self): return self
    def item(self): return 2.0
def ones(count, device):
    assert device == "cuda"
    return _Number()
"""
WORKING_JAX = """
class _Array:
    def __add__(self, other): return self
    def block_until_ready(self): return self
class _Device: device_kind = "A JAX GPU"
def devices(platform): return [_Device()]
def device_put(value, device): return _Array()
"""
BLIND_JAX = "def devices(platform): raise RuntimeError('Unknown backend ' + platform)"
BREAKING_JAX = "def devices(platform): import os; os.abort()"
