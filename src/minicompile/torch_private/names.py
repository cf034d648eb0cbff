"""Every private name of torch that the compiler's side leans on, in one table, with what it is for.

A torch release may move or drop any of them. `tests/minicompile/torch_private/test_names.py` looks each one up in the
torch that is installed and holds it against `minors`, and fails on a minor version that `MINORS` does not have. The
names that are not `required` are those without which the work goes on with less: the hooks that tie lines within a
kernel to the operations that they came from (a capture then links whole kernels only, and says so), and torch's list
of graph breaks.
"""

import importlib
from collections.abc import Container
from dataclasses import dataclass
from typing import Any

from minilab import LabError

MINORS = ("2.11", "2.12", "2.13", "2.14", "2.15")  # torch's minor versions that the lab is tried with


@dataclass(frozen=True)
class PrivateName:
    """Where a private name lives, what for, and which of torch's minor versions have it."""

    path: str  # module, a colon, the attributes below it
    use: str
    required: bool = True
    minors: tuple[str, ...] = MINORS


NAMES = {
    # the capture (session.py and what it enters)
    "dynamo": PrivateName("torch._dynamo:reset", "start without what was compiled before"),
    "timed": PrivateName("torch._dynamo.utils:compilation_time_metrics", "seconds by phase"),
    "bytecode_hook": PrivateName("torch._dynamo.convert_frame:register_bytecode_hook", "Dynamo's own bytecode"),
    "cuda_interface": PrivateName("torch._dynamo.device_interface:CudaInterface", "stand in for a GPU"),
    "fake_tensor": PrivateName("torch._subclasses.fake_tensor:FakeTensor", "tensors on a GPU that is not here"),
    "init_gpu": PrivateName("torch._subclasses.fake_tensor:init_gpu_context", "that wake no driver, simulated target"),
    "no_modes": PrivateName("torch.utils._python_dispatch:_disable_current_modes", "tensors as they are made"),
    "decompositions": PrivateName("torch._inductor.decomposition:select_decomp_table", "those of a GPU"),
    "joint_passes": PrivateName("torch._inductor.fx_passes.joint_graph:check_device", "its passes for a GPU"),
    "scoped_library": PrivateName("torch.library:_scoped_library", "a GPU's operations, for the time of a trace"),
    "flex_attention": PrivateName(
        "torch.nn.attention.flex_attention:_validate_device", "refuses gradients on a CPU, where there is no GPU's code"
    ),
    "detect_fake_mode": PrivateName("torch._guards:detect_fake_mode", "Dynamo's fake mode, for those tensors"),
    "V": PrivateName("torch._inductor.virtualized:V", "the graph, kernel and operation at hand"),
    "config": PrivateName("torch._inductor.config:patch", "caches off, provenance on, passes that look"),
    "settings": PrivateName("torch._inductor.config:_config", "each setting with its default and its type"),
    "setting_read": PrivateName(
        "torch.utils._config_module:ConfigModule.__getattr__", "which settings a compile asks for"
    ),
    "provenance_level": PrivateName("torch._inductor.config:trace.provenance_tracking_level", "origins of nodes"),
    "pre_fusion": PrivateName("torch._inductor.config:_pre_fusion_custom_pass", "IR before fusion"),
    "joint_pass": PrivateName("torch._inductor.config:joint_custom_pre_pass", "the joint graph"),
    "functorch_config": PrivateName("torch._functorch.config:force_non_lazy_backward_lowering", "lower it at once"),
    "compile_fx": PrivateName("torch._inductor.compile_fx:compile_fx", "Inductor itself"),
    "compile_fx_inner": PrivateName("torch._inductor.compile_fx:compile_fx_inner", "one graph of it"),
    "lowerings": PrivateName("torch._inductor.lowering:lowerings", "which function lowers an ATen operation"),
    "codegen": PrivateName("torch._inductor.graph:GraphLowering.codegen", "wrapper code and its marks"),
    "save_output_code": PrivateName("torch._inductor.graph:GraphLowering.save_output_code", "the live graph"),
    "traffic": PrivateName(
        "torch._inductor.scheduler:BaseSchedulerNode.get_read_write_buffers_sizes",
        "bytes that a group reads and writes",
    ),
    "workspace": PrivateName(
        "torch._inductor.codegen.wrapper:PythonWrapperCodegen.generate_workspace_allocation",
        "memory in which a kernel's blocks hand on what they have",
    ),
    "call_mark": PrivateName(
        "torch._inductor.codegen.wrapper:PythonWrapperCodegen.write_provenance_debug_handle",
        "which scheduler nodes a kernel call runs",
    ),
    "cpp_scheduling": PrivateName("torch._inductor.codegen.cpp:CppScheduling.define_kernel", "C++ kernels"),
    "triton_scheduling": PrivateName("torch._inductor.codegen.triton:TritonScheduling.define_kernel", "Triton ones"),
    "pformat": PrivateName("torch._inductor.scheduler:pformat", "a node's dependencies printed once", required=False),
    "block_text": PrivateName(
        "torch._inductor.loop_body:LoopBodyBlock.debug_str", "a loop body printed once", required=False
    ),
    "can_fuse": PrivateName("torch._inductor.scheduler:Scheduler.can_fuse", "fusions that were considered"),
    "will_fusion_create_cycle": PrivateName(
        "torch._inductor.scheduler:Scheduler.will_fusion_create_cycle", "fusions that a cycle forbids"
    ),
    "fuse_two_nodes": PrivateName("torch._inductor.scheduler:Scheduler.fuse_two_nodes", "fusions that were taken"),
    "why": PrivateName("torch._inductor.scheduler:WhyNoFuse.__call__", "Inductor's reason for a refusal"),
    "cpp_vertical": PrivateName("torch._inductor.codegen.cpp:CppScheduling.can_fuse_vertical", "silent refusals"),
    "cpp_horizontal": PrivateName("torch._inductor.codegen.cpp:CppScheduling.can_fuse_horizontal", "silent refusals"),
    "ir": PrivateName("torch._inductor.ir:ComputedBuffer", "kinds of IR nodes"),
    "extern": PrivateName("torch._inductor.ir:ExternKernel", "library calls"),
    "subgraph": PrivateName("torch._inductor.ir:Subgraph", "calls of graphs within a graph"),
    "user_triton": PrivateName("torch._inductor.ir:UserDefinedTritonKernel", "a user's Triton kernel"),
    "template": PrivateName("torch._inductor.ir:TemplateBuffer", "templates"),
    "ops_handler": PrivateName("torch._inductor.ops_handler:DefaultHandler", "run a loop body over sets of indices"),
    "vector_load": PrivateName("torch._inductor.codegen.cpp:CppVecKernel.load", "lanes that a masked load touches"),
    "memory_dep": PrivateName("torch._inductor.dependencies:MemoryDep", "reads and writes with an index"),
    "triton_queries": PrivateName("torch.utils._triton:has_triton", "is there a Triton, simulated target"),
    "set_driver": PrivateName(
        "torch._inductor.runtime.triton_helpers:set_driver_to_gpu", "load a kernel without a driver, simulated target"
    ),
    "kernel_table": PrivateName(
        "torch._higher_order_ops.triton_kernel_wrap:kernel_side_table", "a user's kernel, run beside the graph"
    ),
    "grid_expr": PrivateName(
        "torch._inductor.runtime.triton_heuristics:GridExpr", "how many programs of a kernel run, beside the graph"
    ),
    "ptxas": PrivateName("torch._inductor.runtime.compile_tasks:_set_triton_ptxas_path", "Inductor's assembler"),
    "cache_dir": PrivateName("torch._inductor.runtime.cache_dir_utils:cache_dir", "a path to leave out of the record"),
    "tree_map": PrivateName("torch.utils._pytree:tree_map", "tensors in nested arguments"),
    "cuda_init": PrivateName("torch.cuda:_lazy_init", "that wakes no driver, simulated target"),
    "cuda_guard": PrivateName("torch.cuda:_DeviceGuard", "nor does a guard of a device, simulated target"),
    "caches_off": PrivateName("torch._inductor.config:force_disable_caches", "compile anew"),
    "shape_padding": PrivateName("torch._inductor.config:shape_padding", "a pass that runs on the device"),
    "aot_backend": PrivateName("torch._dynamo.backends.common:aot_autograd", "a backend of two functions"),
    "compile_threads": PrivateName("torch._inductor.config:compile_threads", "compile in this process"),
    "complex_fallback": PrivateName(
        "torch._inductor.lowering:fallback_node_due_to_unsupported_type", "operations that Inductor leaves to ATen"
    ),
    "loops": PrivateName("torch._inductor.ir:IRNode.__post_init__", "which ATen node made a loop", required=False),
    "tracer": PrivateName("torch._inductor.loop_body:LightTracer", "... a loop-body operation", required=False),
    "run_node": PrivateName(
        "torch._inductor.loop_body:InterpreterShim.run_node", "... an operation's variable", required=False
    ),
    "writeline": PrivateName("torch._inductor.utils:IndentedBuffer.writeline", "... a kernel line", required=False),
    "cse": PrivateName("torch._inductor.codegen.common:CSE.generate", "... but compare untagged code", required=False),
    "deferred": PrivateName("torch._inductor.utils:DeferredLineBase", "lines decided on later", required=False),
    "new_line": PrivateName("torch._inductor.utils:DeferredLineBase._new_line", "... rewritten", required=False),
    # the choices (choices.py and what it enters); without one, that kind of choice is absent and said to be
    "select_algorithm": PrivateName(
        "torch._inductor.select_algorithm:AlgorithmSelectorCache.__call__", "candidates for a product", required=False
    ),
    "autotuning": PrivateName(
        "torch._inductor.select_algorithm:AlgorithmSelectorCache.do_autotuning", "... their times", required=False
    ),
    "precompile_choices": PrivateName(
        "torch._inductor.select_algorithm:AlgorithmSelectorCache.make_precompile_fn",
        "... not compiled for a GPU that is not here",
        required=False,
    ),
    "autotune_exceptions": PrivateName(
        "torch._inductor.select_algorithm:_log_autotune_exceptions", "... that do not compile", required=False
    ),
    "benchmark_choice": PrivateName(
        "torch._inductor.select_algorithm:AlgorithmSelectorCache.benchmark_choice",
        "... that do not run",
        required=False,
    ),
    "triton_template": PrivateName(
        "torch._inductor.select_algorithm:TritonTemplate.maybe_append_choice", "... that are not made", required=False
    ),
    "kernel_template": PrivateName(
        "torch._inductor.codegen.common:KernelTemplate.maybe_append_choice", "... that are not made", required=False
    ),
    **{
        name: PrivateName(f"torch._inductor.utils:{name}", "... that are not offered", required=False)
        for name in ("use_cpp_gemm_template", "use_cpp_bmm_template", "use_triton_template", "use_cutlass_template")
    },
    "finalised": PrivateName(
        "torch._inductor.ir:MultiTemplateBuffer.finalize_as_triton_caller", "... chosen after fusion", required=False
    ),
    "pattern_pass": PrivateName(
        "torch._inductor.pattern_matcher:PatternMatcherPass.apply", "which pass is running", required=False
    ),
    "lowering_pattern": PrivateName(
        "torch._inductor.pattern_matcher:LoweringPatternEntry.apply", "patterns that matched", required=False
    ),
    "graph_pattern": PrivateName(
        "torch._inductor.pattern_matcher:GraphPatternEntry.apply", "patterns that matched", required=False
    ),
    "replacement_pattern": PrivateName(
        "torch._inductor.pattern_matcher:ReplacementPatternEntry.apply", "patterns that matched", required=False
    ),
    "joint_patterns": PrivateName(
        "torch._inductor.fx_passes.joint_graph:lazy_init", "... but not while patterns are traced", required=False
    ),
    "post_grad_patterns": PrivateName(
        "torch._inductor.fx_passes.post_grad:lazy_init", "... but not while patterns are traced", required=False
    ),
    "decomposition": PrivateName(
        "torch.fx.experimental.proxy_tensor:maybe_handle_decomp", "operations taken apart", required=False
    ),
    "require_strides": PrivateName(
        "torch._inductor.ir:ExternKernel.require_strides", "who asks for a layout", required=False
    ),
    "require_contiguous": PrivateName(
        "torch._inductor.ir:ExternKernel.require_contiguous", "who asks for a layout", required=False
    ),
    "require_stride1": PrivateName(
        "torch._inductor.ir:ExternKernel.require_stride1", "who asks for a layout", required=False
    ),
    "should_pad": PrivateName("torch._inductor.fx_passes.pad_mm:should_pad", "products to pad", required=False),
    "pad_known": PrivateName(
        "torch._inductor.fx_passes.pad_mm:get_cached_should_pad", "... where the clock comes in", required=False
    ),
    "pad_faster": PrivateName(
        "torch._inductor.fx_passes.pad_mm:is_padded_faster", "... and what it says", required=False
    ),
    "pad_device": PrivateName(
        "torch._inductor.fx_passes.pad_mm:check_device", "... for a GPU that is not here", required=False
    ),
    "pad_triton": PrivateName(
        "torch._inductor.fx_passes.pad_mm:has_triton", "... for a GPU that is not here", required=False
    ),
    "pad_bound": PrivateName(
        "torch._inductor.fx_passes.pad_mm:is_mm_compute_bound", "... for a GPU that is not here", required=False
    ),
    "kernel_times": PrivateName(
        "torch._inductor.runtime.triton_heuristics:CachingAutotuner.benchmark_all_configs",
        "the time of each configuration",
        required=False,
    ),
    # the machine code of C++ kernels (cpp_flags.py)
    "cpp_builder": PrivateName("torch._inductor.cpp_builder:CppBuilder", "the compiler's command", required=False),
    "cpp_options": PrivateName("torch._inductor.cpp_builder:CppTorchOptions", "... its flags", required=False),
    "pick_vec_isa": PrivateName("torch._inductor.cpu_vec_isa:pick_vec_isa", "... for these vectors", required=False),
    # the safety net and the profile (dynamo.py, profiling.py)
    "mode_options": PrivateName("torch._inductor:list_mode_options", "the options that a mode stands for"),
    "inductor_wrapper": PrivateName("torch:_TorchCompileInductorWrapper", "Inductor as torch.compile calls it"),
    "backend_wrapper": PrivateName("torch:_TorchCompileWrapper", "another backend as torch.compile calls it"),
    "skipped_frames": PrivateName("torch._dynamo.trace_rules:check", "frames of which Dynamo compiles nothing"),
    "compile_error": PrivateName("torch._dynamo.exc:TorchDynamoException", "a compile that fails at a call"),
    "recompile_limit": PrivateName("torch._dynamo.exc:FailOnRecompileLimitHit", "... by the limit on recompiles"),
    "fallback_random": PrivateName("torch._inductor.config:fallback_random", "random numbers as eager draws them"),
    "compile_context": PrivateName("torch._guards:CompileContext.current_compile_id", "which compile this is"),
    "metrics_context": PrivateName("torch._dynamo.utils:get_metrics_context", "why this is a recompile"),
    "compile_metrics": PrivateName("torch._dynamo.utils:get_compilation_metrics", "guards and failures of compiles"),
    "break_list": PrivateName("torch._dynamo.output_graph:graph_break_reasons", "graph breaks, told", required=False),
    "structured_trace": PrivateName("torch._logging:trace_structured", "only records that are read", required=False),
    "break_reason": PrivateName(
        "torch._dynamo.output_graph:GraphCompileReason.__post_init__", "where a graph ends", required=False
    ),
    "stance": PrivateName(
        "torch._dynamo.eval_frame:_callback_from_stance", "calls of what is compiled", required=False
    ),
    "mark_dynamic": PrivateName("torch._dynamo:mark_dynamic", "a size that varies"),
    "call_impl": PrivateName("torch.nn:Module._call_impl", "a module's call, hooks included, uncompiled"),
    "compiled_call": PrivateName("torch.nn:Module._compiled_call_impl", "torch's place for a compiled call"),
    # what a compiled model's calls do later (running.py)
    "guard_hook": PrivateName("torch._C._dynamo.eval_frame:set_guard_complete_hook", "a call that finds compiled code"),
    "skip_code": PrivateName("torch._dynamo.eval_frame:skip_code", "a frame of the lab's own that Dynamo passes over"),
    "skip_reason": PrivateName(
        "torch._dynamo.convert_frame:add_skip_reason", "frames left eager for good", required=False, minors=MINORS[2:]
    ),
    "dispatch_modes": PrivateName("torch._C:_len_torch_dispatch_stack", "... under a mode, such as one that counts"),
    "transforms": PrivateName("torch._C._functorch:peek_interpreter_stack", "... or a transform, such as vmap"),
    "stance_set": PrivateName("torch._dynamo.eval_frame:_stance.stance", "whether everything runs eager"),
    "dynamo_off": PrivateName("torch._dynamo.config:disable", "... or nothing is compiled"),
    "tracing_context": PrivateName("torch._guards:TracingContext.try_get", "what a compile has traced and guards"),
    "hook_guards": PrivateName("torch._dynamo.config:skip_nnmodule_hook_guards", "whether hooks are guarded"),
    "fresh_cache": PrivateName("torch._inductor.utils:fresh_cache", "a folder without anything compiled before"),
    "cpp_compiler": PrivateName("torch._inductor.config:cpp.cxx", "a machine without a C++ compiler"),
    "compile_pool": PrivateName("torch._inductor.async_compile:AsyncCompile.pool", "threads a forked copy lacks"),
    "clear_caches": PrivateName("torch._inductor.utils:clear_caches", "nothing kept in memory"),
    "vec_isa_ok": PrivateName("torch._inductor.config:cpp.vec_isa_ok", "vector code not probed"),
    "kernel_profile": PrivateName("torch._inductor.config:cpp.enable_kernel_profile", "C++ kernels in a profile"),
    "post_compile": PrivateName("torch._inductor.output_code:CompiledFxGraph.post_compile", "a graph's callable"),
    # torch's operators and tensors (tensors.py), and what a model holds (state.py)
    "sparse_parts": PrivateName("torch:Tensor._indices", "a sparse tensor's parts, coalesced or not"),
    "version_of": PrivateName("torch:Tensor._version", "a parameter that a pass has written to"),
    "versions_kept": PrivateName("torch.autograd:_unsafe_preserve_version_counter", "a graph from before stays valid"),
    "dispatch_mode": PrivateName("torch.utils._python_dispatch:TorchDispatchMode", "a look at each operator called"),
    "tree_leaves": PrivateName("torch.utils._pytree:tree_leaves", "the tensors in a result"),
}
# without one of these, no line of a kernel is tied to an operation
LINE_HOOKS = ("loops", "tracer", "run_node", "writeline", "cse", "deferred", "new_line")


def lookup(name: str) -> Any:
    """What `NAMES[name]` names in the installed torch, or None where it is absent."""
    module, _, attributes = NAMES[name].path.partition(":")
    try:
        found: Any = importlib.import_module(module)
    except ImportError:
        return None
    for attribute in attributes.split("."):
        # a slot that holds None by default is there: only its owner tells
        if not hasattr(found, attribute):
            return None
        found = getattr(found, attribute)
    return found


def owner(name: str) -> Any:
    """The class or module that holds `NAMES[name]`, to patch it there.

    Raises:
        LabError: the installed torch does not have it.
    """
    module, _, attributes = NAMES[name].path.partition(":")
    holder: Any = None
    try:
        holder = importlib.import_module(module)
        for attribute in attributes.split(".")[:-1]:
            holder = getattr(holder, attribute)
        exists = hasattr(holder, attributes.split(".")[-1])
    except (ImportError, AttributeError):
        exists = False
    if not exists:
        raise LabError(f"{absence(name)}; use a supported torch (pyproject.toml) or report the version.")
    return holder


def missing(required_only: bool = True, among: Container[str] = NAMES) -> list[str]:
    """Keys of `NAMES` that the installed torch lacks, of those that are asked for."""
    found = []
    for name, entry in NAMES.items():
        if name in among and (entry.required or not required_only):
            try:
                owner(name)
            except LabError:
                found.append(name)
    return found


def absence(name: str) -> str:
    """A sentence's beginning about a name that is gone."""
    import torch

    entry = NAMES[name]
    return f"torch {torch.__version__} has no {entry.path.replace(':', '.')}, which the lab needs: {entry.use}"
