"""Private names of torch for what an `explore` tells beside its captures; they join `names.NAMES` on import.

They stand apart from it because a recorded compile, which none of them takes part in, would hang on them there.
"""

from minicompile.torch_private.names import NAMES, PrivateName, lookup, owner

__all__ = ["lookup", "owner"]

AROUND_A_WATCH = {
    "codes": PrivateName("torch._dynamo.convert_frame:input_codes", "which functions were compiled before"),
    "compile_begins": PrivateName("torch._dynamo.callback:on_compile_start", "whether a process compiled anything"),
    "cache_entries": PrivateName(
        "torch._C._dynamo.eval_frame:_debug_get_cache_entry_list", "what was compiled of a function"
    ),
    "compile_fx_aot": PrivateName("torch._inductor.compile_fx:compile_fx_aot", "which compiles go by AOTInductor"),
    "output": PrivateName("torch._inductor.output_code:OutputCode", "whether Inductor compiled it"),
    "aot_cache": PrivateName(
        "torch._functorch._aot_autograd.autograd_cache:AOTAutogradCache.try_load",
        "caches as the script has them",
        required=False,
    ),
    "fx_key": PrivateName("torch._inductor.codecache:FxGraphCache.prepare_key", "... under the script's keys"),
    "artifacts": PrivateName(
        "torch.compiler._cache:CacheArtifactManager.record_artifact", "what a script saves of what was compiled"
    ),
    "tracing": PrivateName("torch._guards:TracingContext", "what AOT autograd knows of a graph's results"),
    "metrics": PrivateName("torch._inductor.metrics:get_metric_fields", "kernels that were generated"),
    "counters": PrivateName("torch._dynamo.utils:counters", "hits and misses"),
}
NAMES.update(AROUND_A_WATCH)
