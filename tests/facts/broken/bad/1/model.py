"""Can't be loaded."""


class TritonPythonModel:
    def initialize(self, args):
        raise RuntimeError("init failed on purpose")

    def execute(self, requests):
        return []
