"""When the parts of one batch's execution began and ended."""


class Stamps:
    """Monotonic nanoseconds; `input_ns`, `infer_ns` and `output_ns` are how long each part took."""

    __slots__ = ("compute_start_ns", "end_ns", "infer_ns", "input_ns", "output_ns")

    def __init__(self, compute_start_ns: int, input_end_ns: int, output_start_ns: int, end_ns: int) -> None:
        self.compute_start_ns = compute_start_ns
        self.end_ns = end_ns
        self.input_ns = input_end_ns - compute_start_ns
        self.infer_ns = output_start_ns - input_end_ns
        self.output_ns = end_ns - output_start_ns
