"""What is wrong with an ONNX model, found in its header: nothing is loaded."""

from collections.abc import Callable, Iterable
from pathlib import Path

from charonia.backends.base import ModelContext
from charonia.backends.file_kinds import stand_in
from charonia.backends.gpus import visible_gpus
from charonia.backends.inspecting import Inspection, file_error, file_warning
from charonia.backends.onnxruntime.broken import why_broken
from charonia.backends.onnxruntime.completion import complete
from charonia.backends.onnxruntime.files import model_file
from charonia.backends.onnxruntime.header import ExternalData, Header, read_header
from charonia.backends.onnxruntime.load_errors import load_error
from charonia.backends.onnxruntime.model import tensor_names
from charonia.backends.onnxruntime.protobuf import Malformed
from charonia.backends.onnxruntime.providers import providers_for
from charonia.backends.onnxruntime.runtime import Module
from charonia.backends.onnxruntime.settings import Settings
from charonia.backends.onnxruntime.signature import Signature
from charonia.config.complete import leaves_open
from charonia.config.contradict import check_against_model
from charonia.config.findings import Finding, Severity, unreadable
from charonia.config.given_elsewhere import dims_given_elsewhere
from charonia.config.model_tensor import ModelTensor, shown
from charonia.config.schema import ModelConfig, ModelInput, ModelInstanceGroup, ModelOutput
from charonia.core.errors import CharoniaError

_SHOWN = 3


def inspect(runtime: Module, context: ModelContext) -> Inspection:
    """Everything that the file and the settings tell; see `InspectingBackend`."""
    config = context.config
    findings = list(_settings(runtime, context))
    try:
        path = model_file(config, context.model_dir, context.version_dir)
        header = read_header(path)
    except CharoniaError as error:
        return _incomplete(config, findings, file_error(context.version_dir, str(error)))
    except OSError as error:
        return _incomplete(config, findings, unreadable(path, error))
    except Malformed:
        return _incomplete(config, findings, file_error(path, *why_broken(path)))
    findings += _readable(runtime, config.name, path, header)
    findings += _external(path, header.external)
    findings += _carried(path, config, header)
    return _against_model(context, path, header, findings)


def _incomplete(config: ModelConfig, findings: list[Finding], reason: Finding) -> Inspection:
    return Inspection(config, (*findings, reason), is_complete=False)


def _readable(runtime: Module, model: str, path: Path, header: Header) -> Iterable[Finding]:
    """Whether the runtime is new enough: asked of the runtime itself, with a model of one node."""
    options = runtime.SessionOptions()
    options.log_severity_level = 4
    try:
        runtime.InferenceSession(header.smallest_model(), options, providers=["CPUExecutionProvider"])
    except Exception as error:
        yield file_error(path, str(load_error(error, model, path)))


def _external(path: Path, external: Iterable[ExternalData]) -> Iterable[Finding]:
    """Files with weights beside the model: there, and long enough."""
    needed: dict[str, ExternalData] = {}
    for each in external:
        if each.location not in needed or needed[each.location].end < each.end:
            needed[each.location] = each
    for location, last in needed.items():
        file = path.parent / location
        if not file.is_file():
            message = f"its weights are stored beside it in '{location}', which is missing"
            yield file_error(path, message, f"copy '{location}' to '{file}': the model file alone is only the graph")
            continue
        what, remedy = stand_in(file) if file.stat().st_size < last.end else ("", "")
        if what:
            yield file_error(file, f"weights of '{path.name}': {what}", remedy)
        elif file.stat().st_size < last.end:
            message = (
                f"the file with the weights of '{path.name}' has {file.stat().st_size:,} bytes, and the weight "
                f"'{last.tensor}' ends at {last.end:,}: it was cut off, or belongs to another export of the model"
            )
            yield file_error(file, message, f"copy it again, together with '{path.name}'")


def _carried(path: Path, config: ModelConfig, header: Header) -> Iterable[Finding]:
    """Tensors of types that no datatype of the protocol can carry."""
    inputs, outputs = header.signature()
    used = {io.name for io in config.output}
    for kind, tensors in (("input", inputs), ("output", outputs)):
        for tensor in tensors:
            if not tensor.datatype and (kind == "input" or not used or tensor.name in used):
                yield file_error(
                    path,
                    f"{kind} '{tensor.name}' is no tensor of a datatype that requests can carry (a sequence, a map, "
                    "or a type such as float8)",
                    "export the model with plain tensors (scikit-learn: convert with options={'zipmap': False})",
                )


def _settings(runtime: Module, context: ModelContext) -> Iterable[Finding]:
    """The parameters and accelerators of the configuration, each tried by itself."""
    config, places = context.config, context.places
    kinds = {group.kind for group in config.instance_group}
    device = "gpu:0" if ModelInstanceGroup.KIND_GPU in kinds and visible_gpus() else "cpu"
    settings = Settings(config)
    tries: dict[str, Callable[[], object]] = {
        'parameters["intra_op_thread_count"]': lambda: settings.count("intra_op_thread_count"),
        'parameters["inter_op_thread_count"]': lambda: settings.count("inter_op_thread_count"),
        'parameters["enable_mem_arena"]': lambda: settings.flag("enable_mem_arena"),
        'parameters["enable_mem_pattern"]': lambda: settings.flag("enable_mem_pattern"),
        "optimization.execution_accelerators": lambda: providers_for(config, device, runtime.get_available_providers()),
    }
    for path, check in tries.items():
        try:
            check()
        except CharoniaError as error:
            yield Finding(Severity.ERROR, path, places.find(path), str(error))
    for library in config.model_operations.op_library_filename:
        if not Path(library).is_file():
            at = "model_operations.op_library_filename"
            message = f"the library of operators '{library}' does not exist"
            yield Finding(Severity.ERROR, at, places.find(at), message, "write its absolute path")


def _against_model(context: ModelContext, path: Path, header: Header, findings: list[Finding]) -> Inspection:
    signature = _signature(context.config, header)
    if signature is None:
        return Inspection(context.config, tuple(findings), is_complete=not leaves_open(context.config))
    if context.server.auto_complete and leaves_open(context.config):
        try:
            completed = complete(context, signature, path.name)
        except CharoniaError as error:
            return _incomplete(context.config, findings, file_error(path, str(error)))
        config, contradictions = completed.config, list(completed.findings)
    else:
        config = context.config
        inputs, outputs = signature.inputs, signature.outputs
        contradictions = check_against_model(config, inputs, outputs, model_file=path.name, places=context.places)
    return Inspection(config, (*findings, *contradictions, *_fixed_batch(config, path, signature)))


def _signature(config: ModelConfig, header: Header) -> Signature | None:
    """As `signature_of` makes it of a session; None when it takes loading the model to know it."""
    used = tensor_names(config)
    inputs, outputs = header.signature()
    optional = [
        ModelTensor(each.name, each.datatype, each.dims, optional=True)
        for each in header.inputs
        if each.name in header.initializers and each.name in used
    ]
    listed = {each.name for each in outputs if each.name in used}
    served = [
        each
        for each in outputs
        if not listed or each.name in listed or (each.datatype and each.name not in header.shapeless)
    ]
    known = [_with_shape(config, each, header) for each in (*inputs, *optional, *served)]
    if any(each is None for each in known):
        return None
    tensors = [each for each in known if each is not None]
    split = len(inputs) + len(optional)
    return Signature(tuple(tensors[:split]), tuple(tensors[split:]))


def _with_shape(config: ModelConfig, tensor: ModelTensor, header: Header) -> ModelTensor | None:
    """A tensor whose shape only the loaded model tells counts as having the configured one, None without."""
    if tensor.name not in header.shapeless:
        return tensor
    ios: list[ModelInput | ModelOutput] = [*config.input, *config.output]
    configured = {io.name: tuple(io.reshape.shape if io.HasField("reshape") else io.dims) for io in ios if io.dims}
    dims = {**dict(dims_given_elsewhere(config)), **configured}.get(tensor.name)
    if dims is None:
        return None
    return ModelTensor(tensor.name, tensor.datatype, (-1, *dims) if config.max_batch_size > 0 else dims)


def _fixed_batch(config: ModelConfig, path: Path, signature: Signature) -> Iterable[Finding]:
    tensors = (*signature.inputs, *signature.outputs)
    if config.max_batch_size > 0 or not tensors or any(each.dims[:1] != (1,) for each in tensors):
        return
    whose = ", ".join(f"'{each.name}' {shown(each.dims)}" for each in tensors[:_SHOWN])
    yield file_warning(
        path,
        f"the model takes one row at a time: the first dimension is fixed to 1 in {whose}, so requests don't batch",
        "export it with an open first dimension (torch.onnx.export: dynamic_axes={'" + tensors[0].name + "': {0: "
        "'batch'}, …}) and set max_batch_size",
    )
