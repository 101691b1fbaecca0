"""The Python backend: which form a model runs in, and what is needed to start it."""

import os
import threading
from collections.abc import Callable
from functools import partial
from pathlib import Path

from charonia.backends.base import BackendInstance, InstanceSpec, ModelContext
from charonia.backends.cores import available_cores, threads_per_instance
from charonia.backends.inspecting import Inspection
from charonia.backends.python.autocomplete import (
    Warm,
    WarmProcesses,
    apply_completion,
    completion_error,
    may_complete,
)
from charonia.backends.python.child import wire
from charonia.backends.python.child.errors import ModelFailure
from charonia.backends.python.environment import Environment, Environments
from charonia.backends.python.events import ModelEvents
from charonia.backends.python.host import HostPlan, IsolatedInstance
from charonia.backends.python.inline import InlineInstance, InlineProgram, complete_inline, new_program
from charonia.backends.python.inspection import inspect, without_tensors
from charonia.backends.python.launch import ModelFiles, find_files, model_args, process_environment
from charonia.backends.python.notes import OutputNotes
from charonia.backends.python.outgoing import OutgoingCalls
from charonia.backends.python.outputs import OutputCheck
from charonia.backends.python.process import ChildFailed, ChildProcess
from charonia.backends.python.settings import environment_path, is_inline, keeps_devices, restart_policy
from charonia.backends.python.source import Source, never_callable, read_source
from charonia.backends.python.supervisor import Supervisor
from charonia.config.differences import differences
from charonia.config.findings import raise_on_errors
from charonia.config.io import io_specs, state_outputs
from charonia.config.schema import ModelConfig
from charonia.core.errors import BackendError


class PythonBackend:
    """One for each server and name.

    Args:
        model_file: for Python-based backends, the file that serves all their models; None for each model's own.
    """

    def __init__(self, name: str = "python", model_file: Path | None = None) -> None:
        self.name = name
        self._model_file = model_file
        self._environments = Environments()
        self._lock = threading.Lock()
        self._supervisor: Supervisor | None = None
        self._warm = WarmProcesses()
        self._models: set[PythonModel] = set()

    def complete_config(self, context: ModelContext) -> ModelConfig:
        """Run the model's `auto_complete_config`. The process that ran it goes on as the model's first instance.

        Raises:
            InvalidArgumentError: the function failed, or contradicts the configuration.
            NotFoundError: the model has no Python file.
        """
        files = find_files(context, self._model_file)
        if not may_complete(files.model_file):
            return context.config
        args_json = model_args(context, _ANY_INSTANCE)["model_config"]
        try:
            if is_inline(context):
                completed = complete_inline(context, files, args_json)
            else:
                completed = self._complete_isolated(context, files, args_json)
        except (ChildFailed, ModelFailure) as failed:
            raise completion_error(context, failed) from None
        config = apply_completion(context, completed)
        reason = f"auto_complete_config of {files.model_file.name}"
        context.completions.extend(differences(context.config, config, reason))
        return config

    def inspect(self, context: ModelContext) -> Inspection:
        """What the model's file says, without executing it."""
        return inspect(context, self._environments, self._model_file)

    def load(self, context: ModelContext) -> "PythonModel":
        """Find the model's files and environment; instances start them.

        Raises:
            NotFoundError: the model has no Python file.
            InvalidArgumentError: a parameter is wrong, or `execute` can't be called.
        """
        files = find_files(context, self._model_file)
        source = read_source(files.model_file)
        if isinstance(source, Source):
            raise_on_errors(list(never_callable(source)))
            self._warn(context, source)
        model = PythonModel(
            context, files, self._environment(context), self._warm, self._supervise(context), self._forget
        )
        with self._lock:
            self._models.add(model)
        return model

    def _warn(self, context: ModelContext, source: Source) -> None:
        """The most usual mistake of somebody's first Python model is to leave the configuration out."""
        if self._model_file is None and not (context.config.input or context.config.output):
            for finding in without_tensors(context, source, auto_complete=False):
                context.server.log.warning(f"{finding.message}; {finding.remedy}")

    def close(self) -> None:
        """End every process that is left."""
        with self._lock:
            models = list(self._models)
            supervisor, self._supervisor = self._supervisor, None
        for model in models:
            model.close()
        self._warm.close()
        if supervisor is not None:
            supervisor.close()
        self._environments.close()

    def kill(self) -> None:
        """See `ProcessOwner`."""
        with self._lock:
            models = list(self._models)
        for model in models:
            model.kill()
        self._warm.close()

    def _complete_isolated(self, context: ModelContext, files: ModelFiles, config_json: str) -> str:
        instances = sum(group.count for group in context.config.instance_group)
        threads = threads_per_instance(available_cores(), instances)
        child = _spawn(context, self._environment(context), threads, context.name)
        warm = Warm(child, files, new_events(context))
        self._supervise(context).watch(child, warm)
        try:
            child.ask(wire.START, *files.start_arguments())
            completed: str = child.ask(wire.COMPLETE, context.name, config_json)
        except wire.LinkClosed:
            text = f"auto_complete_config: its process {child.death()}"
            warm.end()
            raise ChildFailed(text) from None
        except ChildFailed:
            warm.end()
            raise
        self._warm.keep(warm)
        return completed

    def _environment(self, context: ModelContext) -> Environment:
        return self._environments.find(context.name, environment_path(context), context.model_dir)

    def _supervise(self, context: ModelContext) -> Supervisor:
        with self._lock:
            if self._supervisor is None:
                self._supervisor = Supervisor(context.server.log)
            return self._supervisor

    def _forget(self, model: "PythonModel") -> None:
        with self._lock:
            self._models.discard(model)


class PythonModel:
    """One loaded model version."""

    def __init__(
        self,
        context: ModelContext,
        files: ModelFiles,
        environment: Environment,
        warm: WarmProcesses,
        supervisor: Supervisor,
        forget: "Callable[[PythonModel], None]",
    ) -> None:
        self._context = context
        self._files = files
        self._environment = environment
        self._warm = warm
        self._supervisor = supervisor
        self._forget = forget
        self._keeps_devices = keeps_devices(context)
        self._inline = new_program(context, files, self._new_events()) if is_inline(context) else None
        self._restart = restart_policy(context)
        self._notes = OutputNotes(context.name, context.server.log)
        self._lock = threading.Lock()
        self._instances: list[IsolatedInstance] = []
        self._closed = False

    def create_instance(self, spec: InstanceSpec) -> BackendInstance:
        if self._inline is not None:
            return self._create_inline(spec, self._inline)
        instance = IsolatedInstance(self._plan(spec), self._supervisor)
        with self._lock:
            if self._closed:
                raise BackendError(f"model '{self._context.name}' is being unloaded")
            self._instances.append(instance)
        instance.open(self._warm.take(self._files))
        return instance

    def close(self) -> None:
        """Processes that still run (stuck, or still starting) are killed."""
        self.kill()
        self._warm.drop(self._files)
        if self._inline is not None:
            self._inline.close()
        self._forget(self)

    def kill(self) -> None:
        """End its processes; its requests fail, and none begins again."""
        with self._lock:
            self._closed = True
            instances = list(self._instances)
        for instance in instances:
            instance.abort()

    def _create_inline(self, spec: InstanceSpec, program: InlineProgram) -> InlineInstance:
        context = self._context
        names = tuple(output.name for output in context.config.output)
        label, args, log = _label(context, spec), model_args(context, spec), context.server.log
        check = self._new_check()
        return InlineInstance(label, spec, program, args, names, check, log, self._keeps_devices)

    def _plan(self, spec: InstanceSpec) -> HostPlan:
        context = self._context
        return HostPlan(
            name=spec.name,
            label=_label(context, spec),
            files=self._files,
            args=model_args(context, spec),
            output_names=tuple(output.name for output in context.config.output),
            spawn=partial(_spawn, context, self._environment, spec.cpu_threads, spec.name),
            new_check=self._new_check,
            new_events=self._new_events,
            new_calls=self._new_calls,
            finalize_timeout_s=context.server.exit_timeout_s,
            keeps_devices=self._keeps_devices,
            restart=self._restart,
            log=context.server.log,
            instance=spec,
            decoupled=context.config.model_transaction_policy.decoupled,
            cores=spec.cores,
        )

    def _new_check(self) -> OutputCheck:
        config = self._context.config
        outputs, batched = io_specs(config)[1], config.max_batch_size > 0
        return OutputCheck(self._context.name, outputs, batched, self._notes, state_outputs(config))

    def _new_calls(self) -> OutgoingCalls:
        server = self._context.server
        return OutgoingCalls(self._context.id, server.submitter, server.clock)

    def _new_events(self) -> ModelEvents:
        return new_events(self._context)


def new_events(context: ModelContext) -> ModelEvents:
    server = context.server
    return ModelEvents(server.log, server.custom_metrics, server.models, context.name)


def _spawn(context: ModelContext, environment: Environment, cpu_threads: int, name: str) -> ChildProcess:
    variables = process_environment(environment, cpu_threads, os.environ)
    try:
        return ChildProcess(name, environment.interpreter, variables)
    except OSError as error:
        raise BackendError(
            f"model '{context.name}': can't start a process with {environment.interpreter}: {error}"
        ) from None


def _label(context: ModelContext, spec: InstanceSpec) -> str:
    return f"model '{context.name}' version {context.version} instance '{spec.name}'"


_ANY_INSTANCE = InstanceSpec("", "KIND_CPU", "cpu", 1)
